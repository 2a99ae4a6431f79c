// Starts `openinfer lsp` and hands it the settings `openinfer.*`, at the start and when they change.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

function settings() {
    const { model, sizes, strict } = workspace.getConfiguration("openinfer");
    return { model, sizes, strict };
}

function activate() {
    const command = workspace.getConfiguration("openinfer").get("command");
    client = new LanguageClient(
        "openinfer",
        "OpenInfer",
        { command, args: ["lsp"] },
        { documentSelector: [{ language: "openinfer" }], initializationOptions: settings() },
    );
    workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("openinfer")) {
            client.sendNotification("workspace/didChangeConfiguration", {
                settings: { openinfer: settings() },
            });
        }
    });
    return client.start();
}

function deactivate() {
    return client?.stop();
}

module.exports = { activate, deactivate };
