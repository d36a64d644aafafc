"""PDFs made by hand: pages of lines in any script, bookmarks, a password."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence

from pypdf import PdfReader, PdfWriter

_TO_UNICODE = b"""/CIDInit /ProcSet findresource begin 12 dict begin begincmap
/CMapName /Adobe-Identity-UCS def /CMapType 2 def
1 begincodespacerange <0000> <FFFF> endcodespacerange
1 beginbfrange <0000> <FFFF> <0000> endbfrange
endcmap end end"""


def pdf_of(pages: Sequence[Sequence[str]]) -> bytes:
    """A PDF whose pages hold these lines, in one font that maps codes to the same characters."""
    font = b"/Type /Font /Subtype /Type0 /BaseFont /F /Encoding /Identity-H"
    inner = b"/Type /Font /Subtype /CIDFontType2 /BaseFont /F /DW 1000"
    system = b"/CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) /Supplement 0 >>"
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"",
        b"<< %b /DescendantFonts [4 0 R] /ToUnicode 5 0 R >>" % font,
        b"<< %b %b >>" % (inner, system),
        _stream(_TO_UNICODE),
    ]
    kids = []
    for lines in pages:
        shown = " ".join(f"<{line.encode('utf-16-be').hex()}> Tj T*" for line in lines)
        objects.append(_stream(f"BT /F 12 Tf 50 800 Td 14 TL {shown} ET".encode()))
        kids.append(f"{len(objects) + 1} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 850] /Contents {len(objects)} 0 R"
            " /Resources << /Font << /F 3 0 R >> >> >>".encode()
        )
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>".encode()
    return _file(objects)


def bomb() -> bytes:
    """A page whose content is 200 MB of blanks, in 200 kB."""
    whole = pdf_of([["x"]])
    page = _stream(b"BT " + b" " * 200_000_000 + b" ET")
    start = whole.index(b"6 0 obj\n") + len(b"6 0 obj\n")
    return whole[:start] + page + whole[whole.index(b"\nendobj", start) :]


def bookmarked(raw: bytes, titles: Sequence[tuple[str, int]]) -> bytes:
    """The PDF with bookmarks: titles and the pages they lead to."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(raw)))
    for title, page in titles:
        writer.add_outline_item(title=title, page_number=page)
    return _written(writer)


def locked(raw: bytes, *, password: str) -> bytes:
    """The PDF encrypted; an empty password opens for everybody."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(raw)))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
    return _written(writer)


def _written(writer: PdfWriter) -> bytes:
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def _stream(content: bytes) -> bytes:
    packed = zlib.compress(content)
    head = f"<< /Length {len(packed)} /Filter /FlateDecode >>".encode()
    return head + b"\nstream\n" + packed + b"\nendstream"


def _file(objects: Sequence[bytes]) -> bytes:
    out, places = io.BytesIO(), []
    out.write(b"%PDF-1.7\n")
    for number, content in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(f"{number} 0 obj\n".encode() + content + b"\nendobj\n")
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.writelines(f"{place:010} 00000 n \n".encode() for place in places)
    out.write(f"trailer << /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n".encode())
    out.write(b"%%EOF")
    return out.getvalue()
