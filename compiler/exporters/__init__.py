"""Programs become models of other formats; a folder for each format."""
