"""Tools from elsewhere: one small file per kind of source.

``source.IMPORTERS`` names the kinds, ``source.load_source`` reads any of them. An importer of documents is a pure function
``(document, source) -> Imported`` (``base``) of a parsed document and of the name that it goes by.
"""
