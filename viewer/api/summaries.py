"""Objects of an aggregation: the dashboard's panels, one op, the recommendations."""

from __future__ import annotations

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from aggregator.dldb.reader import damaged
from aggregator.query.request import check_parameters, parse_list_query
from aggregator.query.spec import ObjectSpec
from aggregator.query.sql import bind, read_page
from aggregator.resources.objects import read_object
from aggregator.resources.ops import OP_DETAIL
from aggregator.resources.recommendations import read_recommendations
from aggregator.resources.summaries import PERFORMANCE_SUMMARY
from viewer.api.base import ResourceView
from viewer.api.documents import (
    DOMAIN,
    UNKNOWN,
    Parameter,
    Schema,
    array,
    object_schema,
    record,
    row_schema,
    value,
)
from viewer.api.scope import Place, open_scope


class ObjectView(ResourceView):
    """One object of an aggregation and domain."""

    spec: ClassVar[ObjectSpec] = PERFORMANCE_SUMMARY

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The domain only."""
        return (DOMAIN,)

    def reply(self, method: str) -> Schema:
        """Its fields."""
        return object_schema(self.spec)

    def get(self, request: Request, **parts: Any) -> Response:
        """Its values; null where the database has none, with the reason under ``unknown``."""
        check_parameters(request.query_params.dict(), ["domain"])
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            return Response(read_object(self.spec, scope.database, scope.params))


class OpView(ResourceView):
    """One op with all its times."""

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The domain only."""
        return (DOMAIN,)

    def reply(self, method: str) -> Schema:
        """The op's fields."""
        row = row_schema(OP_DETAIL.columns)
        return record(row["properties"] | {"unknown": UNKNOWN})

    def get(self, request: Request, **parts: Any) -> Response:
        """The row of the ops table, and the statistics that the table leaves out."""
        check_parameters(request.query_params.dict(), ["domain"])
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            table = bind(OP_DETAIL, scope.database, scope.params)
            rows = read_page(table, parse_list_query(OP_DETAIL, {}), scope.database)
            if not rows:
                # Its name is there, its times are not.
                raise damaged(scope.served.path, LookupError("an op without metrics"))
        return Response(rows[0] | {"unknown": table.unknown})


class RecommendationsView(ResourceView):
    """What the detectors found."""

    def parameters(self, method: str) -> tuple[Parameter, ...]:
        """The domain only."""
        return (DOMAIN,)

    def reply(self, method: str) -> Schema:
        """The findings."""
        item = record(
            {
                "id": value("integer"),
                "detector": value("string", "Name of the detector.", nullable=True),
                "problem": value("string"),
                "recommendation": value("string"),
                "drill_down": value("string", "View that shows the details.", nullable=True),
                "drill_down_args": value("string", nullable=True),
            }
        )
        return record({"count": value("integer"), "results": array(item)})

    def get(self, request: Request, **parts: Any) -> Response:
        """Problem and advice, in the order in which they were stored."""
        check_parameters(request.query_params.dict(), ["domain"])
        with open_scope(Place(**parts), request.query_params.get("domain")) as scope:
            results = read_recommendations(scope.database, scope.params)
        return Response({"count": len(results), "results": results})
