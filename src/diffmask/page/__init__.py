"""⑩ The page: one view of explanations for a browser, shared by the report (one file) and the server (live).

In Python, all without a model:

    entry(explanation, text=..., picture=...)   one explanation as plain JSON, as the view takes it (entries.py)
    entry(record)                               the same from what `report.plain.record` wrote
    page_html(entries, title=...)               one self-contained file: no network, opens by double click (html.py)
    page_html([], mode="live", scripts=[...])   a page that links its assets, for a server; fill `<div id="live">`
    fragment_html(explanation)                  a static piece for notebooks, without any script
    asset("view.js")                            the bytes of an asset, and its media type by ASSETS (html.py)
    picture_uri(image)                          a PIL image, a path or bytes as a data URI, made small (picture.py)
    read_sources(paths)                         saved explanations and comparisons as records (sources.py)

In the browser, `assets/view.js` has one global and `assets/view.css` prefixes every class with dm-:

    const view = DiffMask.show(container, entry, {depth, onDepth, rivals})   draw one explanation in place of the last
    view.setDepth(2); view.depth; view.entry                   `onDepth(depth)` is called when a person moves the slider
    DiffMask.report(container, data)                           the list beside the view; runs by itself in a report

A server sends CONTENT_SECURITY (html.py) as its Content-Security-Policy header; a report carries its own, stricter,
with the hashes of its one script and one style. Text is only ever set as text: nothing in it can become markup.
"""
