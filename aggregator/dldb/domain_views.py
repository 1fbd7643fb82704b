"""Kernel views of databases with custom domains: they show the kernels of every domain.

Written from the plain views, whose SQL stays the only one: each gets a second part that joins the
kernels which a domain's ranges cover. Only databases that have custom domains pay for it, since a
view of two parts sorts more slowly.
"""

from __future__ import annotations

import re

VIEWS = ("view_kernel_launches", "view_iteration_kernels", "view_iteration_ops")
_PLAIN_JOIN = """JOIN kernels AS k ON k.id >= i.kernel_low AND k.id < i.kernel_high
JOIN op_kernels AS q ON q.id = k.op_kernel"""
_DOMAIN_JOIN = """JOIN domain_kernels AS c
    ON c.kernel >= i.kernel_low AND c.kernel < i.kernel_high AND c.by_time = 0
JOIN kernels AS k ON k.id = c.kernel
JOIN op_kernels AS q ON q.id = c.op_kernel"""
_SHORT = " AND i.kernel_high - i.kernel_low <= 20000"
_PLAIN_INSTANCE, _DOMAIN_INSTANCE = "ON j.id = k.instance", "ON j.id = c.instance"


def with_domains(views_sql: str) -> str:
    """The views with a second part for custom domains in each kernel view.

    Raises:
        ValueError: A kernel view no longer has the join that is replaced.
    """
    for name in VIEWS:
        found = re.search(rf"CREATE VIEW {name} AS\n(.*?);\n", views_sql, re.DOTALL)
        if found is None or _PLAIN_JOIN not in found[1]:
            raise ValueError(name)
        # Sums of long iterations are stored for the default domain only.
        part = found[1].partition("\nUNION ALL\n")[0].replace(_SHORT, "")
        part = part.replace(_PLAIN_JOIN, _DOMAIN_JOIN)
        part = part.replace(_PLAIN_INSTANCE, _DOMAIN_INSTANCE)
        both = f"CREATE VIEW {name} AS\n{found[1]}\nUNION ALL\n{part};\n"
        views_sql = views_sql.replace(found[0], both)
    return views_sql
