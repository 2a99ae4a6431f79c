"""`openinfer lsp`: the Language Server Protocol around the analyses, by pygls over standard streams."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Any, TypeVar, cast

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from openinfer.compiler.frontend.layout import formatted
from openinfer.compiler.frontend.source import Span
from openinfer.compiler.language_server import navigation
from openinfer.compiler.language_server.analysis import Analysis, Setup
from openinfer.compiler.language_server.colours import KINDS, colours
from openinfer.compiler.language_server.completion import Item, complete
from openinfer.compiler.language_server.hover import hover
from openinfer.compiler.language_server.positions import Positions
from openinfer.compiler.language_server.signatures import signature_at
from openinfer.runtime.errors import Diagnostic, OpenInferError
from openinfer.runtime.version import openinfer_version

_PAUSE = 0.15
"""Seconds without typing before a text is checked."""
_SEVERITY = {
    "error": types.DiagnosticSeverity.Error,
    "warning": types.DiagnosticSeverity.Warning,
}
_ITEM_KINDS = {
    "op": types.CompletionItemKind.Function,
    "setting": types.CompletionItemKind.Property,
    "variable": types.CompletionItemKind.Variable,
    "parameter": types.CompletionItemKind.Property,
    "size": types.CompletionItemKind.Constant,
    "block": types.CompletionItemKind.Module,
    "keyword": types.CompletionItemKind.Keyword,
    "attribute": types.CompletionItemKind.Property,
    "dtype": types.CompletionItemKind.TypeParameter,
    "value": types.CompletionItemKind.Value,
    "hint": types.CompletionItemKind.Property,
}
_SYMBOL_KINDS = {
    "section": types.SymbolKind.Namespace,
    "block": types.SymbolKind.Function,
    "loop": types.SymbolKind.Array,
    "scope": types.SymbolKind.Namespace,
    "variable": types.SymbolKind.Variable,
    "size": types.SymbolKind.Constant,
}
_Result = TypeVar("_Result")


class ProgramServer(LanguageServer):
    """The server with the present analysis of every open text."""

    def __init__(self) -> None:
        super().__init__("openinfer", openinfer_version())
        self.setup = Setup()
        self.asked_to_end = False
        self._analyses: dict[str, Analysis] = {}
        self._changes: dict[str, int] = {}

    def configure(self, given: object) -> None:
        """Takes `{"model": PATH, "sizes": {…}, "strict": BOOL}`; anything else in it is left alone."""
        if not isinstance(given, dict):
            return
        options = cast("dict[str, Any]", given)
        options = options.get("openinfer", options)
        if not isinstance(options, dict):
            return
        sizes = options.get("sizes")
        kept = {
            str(name): value
            for name, value in (sizes.items() if isinstance(sizes, dict) else ())
            if isinstance(value, int) and not isinstance(value, bool) and value >= 0
        }
        model = options.get("model")
        root = self.workspace.root_path or ""
        self.setup = Setup(
            model if isinstance(model, str) else "", kept, options.get("strict") is True, root
        )
        self._analyses.clear()

    def analysis(self, uri: str) -> Analysis:
        """The analysis of the present text of a document."""
        text = self.workspace.get_text_document(uri).source
        kept = self._analyses.get(uri)
        if kept is None or kept.source.text != text:
            file = to_fs_path(uri) or uri
            kept = self._analyses[uri] = Analysis(text, file, self.setup, kept)
        return kept

    def begin(self, uri: str) -> None:
        """A text was opened, or saved: all is looked at anew, the model beside it too."""
        self._analyses.pop(uri, None)
        self._changes.setdefault(uri, 0)
        self.check(uri)

    async def check_soon(self, uri: str) -> None:
        """Publishes the findings once nothing was typed for a moment."""
        number = self._changes[uri] = self._changes.get(uri, 0) + 1
        await asyncio.sleep(_PAUSE)
        if self._changes.get(uri) == number:
            self.check(uri)

    def check(self, uri: str) -> None:
        """Publishes the findings of the present text."""
        document = self.workspace.get_text_document(uri)
        found = self.guarded(lambda: self._diagnostics(uri), [])
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri, found, document.version)
        )

    def forget(self, uri: str) -> None:
        """A text was closed."""
        self._analyses.pop(uri, None)
        self._changes.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def check_again(self) -> None:
        """Publishes the findings of all open texts."""
        for uri in list(self._changes):
            self._analyses.pop(uri, None)
            self.check(uri)

    def guarded(self, work: Callable[[], _Result], otherwise: _Result) -> _Result:
        """A result; where a defect of the server shows, a line in the editor's log instead of an end."""
        try:
            return work()
        except OpenInferError as error:
            message = error.message
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
        self.window_log_message(
            types.LogMessageParams(types.MessageType.Error, f"openinfer: {message}")
        )
        return otherwise

    def _diagnostics(self, uri: str) -> list[types.Diagnostic]:
        analysis = self.analysis(uri)
        return [_diagnostic(analysis, uri, found) for found in analysis.findings.diagnostics]


def _range(positions: Positions, span: Span) -> types.Range:
    return types.Range(_position(positions, span.start), _position(positions, span.stop))


def _position(positions: Positions, offset: int) -> types.Position:
    return types.Position(*positions.place(offset))


def _offset(analysis: Analysis, position: types.Position) -> int:
    return analysis.positions.offset(position.line, position.character)


def _diagnostic(analysis: Analysis, uri: str, found: Diagnostic) -> types.Diagnostic:
    notes: list[types.DiagnosticRelatedInformation] = []
    message = found.message
    for note in found.notes:
        if note.location is None:
            message += f"\nnote: {note.message}"
            continue
        span = analysis.span(Diagnostic(found.code, note.message, note.location))
        place = types.Location(uri, _range(analysis.positions, span))
        notes.append(types.DiagnosticRelatedInformation(place, note.message))
    if found.hint:
        message += f"\nfix: {found.hint}"
    return types.Diagnostic(
        range=_range(analysis.positions, analysis.span(found)),
        message=message,
        severity=_SEVERITY.get(found.severity, types.DiagnosticSeverity.Information),
        code=found.code,
        source="openinfer",
        related_information=notes or None,
    )


def _item(item: Item) -> types.CompletionItem:
    doc = types.MarkupContent(types.MarkupKind.Markdown, item.doc) if item.doc else None
    return types.CompletionItem(
        label=item.label,
        kind=_ITEM_KINDS[item.kind],
        detail=item.detail or None,
        documentation=doc,
        insert_text=item.insert or None,
    )


def _symbol(positions: Positions, entry: navigation.Entry) -> types.DocumentSymbol:
    label = Span(max(entry.label.start, entry.whole.start), min(entry.label.stop, entry.whole.stop))
    return types.DocumentSymbol(
        name=entry.name,
        kind=_SYMBOL_KINDS[entry.kind],
        range=_range(positions, entry.whole),
        selection_range=_range(positions, label),
        detail=entry.detail or None,
        children=[_symbol(positions, child) for child in entry.inner] or None,
    )


def _relative(positions: Positions, parts: list[tuple[Span, str]]) -> list[int]:
    """Five numbers for each part: lines and units since the one before, length, kind, no modifiers."""
    data: list[int] = []
    line_before, unit_before = 0, 0
    for span, kind in parts:
        (line, unit), (_, stop) = positions.place(span.start), positions.place(span.stop)
        since = unit - unit_before if line == line_before else unit
        data += [line - line_before, since, stop - unit, KINDS.index(kind), 0]
        line_before, unit_before = line, unit
    return data


def make_server() -> ProgramServer:
    """A server with all that it answers."""
    server = ProgramServer()

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        server.configure(params.initialization_options or {})

    @server.feature(types.SHUTDOWN)
    def shutdown(params: None) -> None:
        server.asked_to_end = True

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    def configured(params: types.DidChangeConfigurationParams) -> None:
        server.configure(params.settings)
        server.check_again()

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(params: types.DidOpenTextDocumentParams) -> None:
        server.begin(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        await server.check_soon(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        server.begin(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        server.forget(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hovered(params: types.HoverParams) -> types.Hover | None:
        def work() -> types.Hover | None:
            analysis = server.analysis(params.text_document.uri)
            found = hover(analysis, _offset(analysis, params.position))
            if found is None:
                return None
            content = types.MarkupContent(types.MarkupKind.Markdown, found.text)
            return types.Hover(content, _range(analysis.positions, found.span))

        return server.guarded(work, None)

    @server.feature(
        types.TEXT_DOCUMENT_COMPLETION,
        types.CompletionOptions(trigger_characters=["@", ".", "(", "=", "[", "{", ",", '"', " "]),
    )
    def completed(params: types.CompletionParams) -> list[types.CompletionItem]:
        def work() -> list[types.CompletionItem]:
            analysis = server.analysis(params.text_document.uri)
            return [_item(item) for item in complete(analysis, _offset(analysis, params.position))]

        return server.guarded(work, [])

    @server.feature(
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        types.SignatureHelpOptions(trigger_characters=["(", ","]),
    )
    def signed(params: types.SignatureHelpParams) -> types.SignatureHelp | None:
        def work() -> types.SignatureHelp | None:
            analysis = server.analysis(params.text_document.uri)
            found = signature_at(analysis, _offset(analysis, params.position))
            if found is None:
                return None
            parts = [types.ParameterInformation(part) for part in found.parts]
            shown = types.SignatureInformation(found.label, parameters=parts)
            return types.SignatureHelp([shown], 0, found.active)

        return server.guarded(work, None)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(params: types.DefinitionParams) -> types.Location | None:
        def work() -> types.Location | None:
            uri = params.text_document.uri
            analysis = server.analysis(uri)
            made = navigation.definition(analysis, _offset(analysis, params.position))
            if made is None:
                return None
            return types.Location(uri, _range(analysis.positions, made.name))

        return server.guarded(work, None)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def referenced(params: types.ReferenceParams) -> list[types.Location]:
        def work() -> list[types.Location]:
            uri = params.text_document.uri
            analysis = server.analysis(uri)
            offset = _offset(analysis, params.position)
            with_it = params.context.include_declaration
            spans = navigation.references(analysis, offset, declaration=with_it)
            return [types.Location(uri, _range(analysis.positions, span)) for span in spans]

        return server.guarded(work, [])

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT)
    def highlighted(params: types.DocumentHighlightParams) -> list[types.DocumentHighlight]:
        def work() -> list[types.DocumentHighlight]:
            analysis = server.analysis(params.text_document.uri)
            spans = navigation.references(analysis, _offset(analysis, params.position))
            return [types.DocumentHighlight(_range(analysis.positions, span)) for span in spans]

        return server.guarded(work, [])

    @server.feature(types.TEXT_DOCUMENT_PREPARE_RENAME)
    def prepared(params: types.PrepareRenameParams) -> types.Range | None:
        analysis = server.analysis(params.text_document.uri)
        try:
            span = navigation.renamed_span(analysis, _offset(analysis, params.position))
        except navigation.CannotRename:
            return None
        return _range(analysis.positions, span)

    @server.feature(types.TEXT_DOCUMENT_RENAME, types.RenameOptions(prepare_provider=True))
    def renamed(params: types.RenameParams) -> types.WorkspaceEdit:
        uri = params.text_document.uri
        analysis = server.analysis(uri)
        try:
            edits = navigation.rename(analysis, _offset(analysis, params.position), params.new_name)
        except navigation.CannotRename as error:
            raise JsonRpcInvalidParams(str(error)) from None
        made = [types.TextEdit(_range(analysis.positions, e.span), e.text) for e in edits]
        return types.WorkspaceEdit(changes={uri: made})

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outlined(params: types.DocumentSymbolParams) -> Sequence[types.DocumentSymbol]:
        def work() -> list[types.DocumentSymbol]:
            analysis = server.analysis(params.text_document.uri)
            return [_symbol(analysis.positions, e) for e in navigation.outline(analysis)]

        return server.guarded(work, [])

    @server.feature(
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        types.SemanticTokensLegend(token_types=list(KINDS), token_modifiers=[]),
    )
    def coloured(params: types.SemanticTokensParams) -> types.SemanticTokens:
        def work() -> types.SemanticTokens:
            analysis = server.analysis(params.text_document.uri)
            return types.SemanticTokens(_relative(analysis.positions, colours(analysis)))

        return server.guarded(work, types.SemanticTokens([]))

    @server.feature(types.TEXT_DOCUMENT_FORMATTING)
    def laid_out(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
        """One edit for the whole text; none where its mistakes of syntax forbid it."""

        def work() -> list[types.TextEdit]:
            analysis = server.analysis(params.text_document.uri)
            text = analysis.source.text
            try:
                made = formatted(text, analysis.source.file)
            except OpenInferError:
                return []  # the mistakes are shown already
            if made == text:
                return []
            return [types.TextEdit(_range(analysis.positions, Span(0, len(text))), made)]

        return server.guarded(work, [])

    return server


def serve() -> bool:
    """Speaks over standard input and output until the editor goes; whether it said so before (`shutdown`)."""
    server = make_server()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as protocol, redirect_stdout(sys.stderr):
        # A `print` somewhere would break the frames. pygls closes what it writes to.
        server.start_io(stdout=protocol)
    return server.asked_to_end
