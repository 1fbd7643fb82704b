"""The formats that a table can be exported in."""

from __future__ import annotations

from viewer.exports.formats import ExportFormat
from viewer.exports.pdf import write_pdf
from viewer.exports.plain import write_csv, write_json
from viewer.exports.xlsx import write_xlsx

_XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

FORMATS: dict[str, ExportFormat] = {
    "csv": ExportFormat("csv", "text/csv; charset=utf-8", write_csv),
    "json": ExportFormat("json", "application/json", write_json),
    "xlsx": ExportFormat("xlsx", _XLSX, write_xlsx),
    "pdf": ExportFormat("pdf", "application/pdf", write_pdf),
}
