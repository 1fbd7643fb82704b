"""Objects of an aggregation: the dashboard's panels, and one op."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.dldb.reader import damaged
from aggregator.tables.declared.ops import OP_DETAIL
from aggregator.tables.declared.summaries import PERFORMANCE_SUMMARY
from aggregator.tables.spec import ObjectSpec
from viewer.api.schema import DOMAIN, ResourceView, get_view, object_of, row
from viewer.api.scope import open_scope


class ObjectView(ResourceView):
    """One object of an aggregation and domain."""

    spec: ClassVar[ObjectSpec] = PERFORMANCE_SUMMARY
    query_names = ("domain",)

    def parameters(self) -> Iterable[OpenApiParameter]:
        """The domain only."""
        return (DOMAIN,)

    def replies(self) -> Any:
        """Its fields."""
        return object_of(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """The values; null where the database has none, with the reason under ``unknown``."""
        with open_scope(request, parts) as scope:
            return Response(scope.data.read_object(self.spec))


@get_view({200: row(OP_DETAIL, with_reasons=True)}, DOMAIN)
def OpView(request: Request, **parts: Any) -> dict[str, Any]:
    """The row of the ops table, and the statistics that the table leaves out."""
    with open_scope(request, parts) as scope:
        rows = scope.data.rows(OP_DETAIL, limit=1)
        if not rows:
            # The view of names has the op, the view of times does not.
            raise damaged(scope.served.path, LookupError("an op without metrics"))
        return rows[0] | {"unknown": scope.data.resolve(OP_DETAIL).unknown}
