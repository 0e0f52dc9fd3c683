"""A report: one HTML page about recorded traffic, that needs no network and runs nothing of what it shows.

    timeline    makes the entries of a page: of recorded conversations, replayed, and of decision records
    shown       what of an entry's texts and facts the page may hold: everything, or what a domain's allow-list leaves
    page        packs entries into blocks, keeps the index, writes the page
    page.html, page.css, page.js    the page itself

Which files are read, and by how many processes, is `cli_report`'s business.
"""

from ledgeragent.report.page import Page, packed
from ledgeragent.report.shown import Everything, Masked, Shown
from ledgeragent.report.timeline import Entry, JudgedRow, Sessions, of_conversation

__all__ = ["Entry", "Everything", "JudgedRow", "Masked", "Page", "Sessions", "Shown", "of_conversation", "packed"]
