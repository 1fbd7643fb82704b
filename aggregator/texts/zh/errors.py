"""Errors and their hints."""

from __future__ import annotations

_FILES: dict[str, str] = {
    "'{path}' is not a Chrome trace of torch.profiler.": (
        "'{path}' 不是 torch.profiler 的 Chrome 跟踪文件。"
    ),
    "Write one with: torch.profiler.profile(...).export_chrome_trace('trace.json.gz')": (
        "请这样写出：torch.profiler.profile(...).export_chrome_trace('trace.json.gz')"
    ),
    "Profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] and check "
    "that the application used a GPU.": (
        "请以 activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA] 采集，并确认程序使用了 GPU。"
    ),
    "No such file '{path}'.": "没有文件 '{path}'。",
    "'{path}' is no Nsight Systems export, nvprof file or Kineto trace.": (
        "'{path}' 既不是 Nsight Systems 导出，也不是 nvprof 文件或 Kineto 跟踪。"
    ),
    "Export a report with: nsys export --type=sqlite report.nsys-rep": (
        "请用以下命令导出报告：nsys export --type=sqlite report.nsys-rep"
    ),
    "Line {number} is no dictionary of a kernel.": "第 {number} 行不是内核的字典。",
    "Give the output of: dlprof pyprof parse FILE": (
        "请给出以下命令的输出：dlprof pyprof parse FILE"
    ),
    "'{path}' cannot be read: {error}.": "无法读取 '{path}'：{error}。",
    "a value in it is of another kind than it must be": "其中有一个值的类型不对",
    "'{path}' cannot be opened: {error}.": "无法打开 '{path}'：{error}。",
    "'{path}' is an SQLite file, but neither an Nsight Systems export nor a DLProf database.": (
        "'{path}' 是 SQLite 文件，但既不是 Nsight Systems 导出，也不是 DLProf 数据库。"
    ),
    "'{path}' holds {name!r}, which would run SQL that is not ours.": (
        "'{path}' 中含有 {name!r}，它会运行不属于我们的 SQL。"
    ),
    "The parameter {name} is given more than once.": "参数 {name} 给出了不止一次。",
    "'{path}' is no DLProf database.": "'{path}' 不是 DLProf 数据库。",
    "'{path}' is not an SQLite file.": "'{path}' 不是 SQLite 文件。",
    "'{path}' is damaged or no DLProf database: {error}.": (
        "'{path}' 已损坏或不是 DLProf 数据库：{error}。"
    ),
    "'{path}' is a database of open-dlprof already: there is nothing to import.": (
        "'{path}' 已经是 open-dlprof 的数据库：没有可导入的内容。"
    ),
    "'{path}' does not tell the DLProf version that wrote it.": (
        "'{path}' 没有说明写入它的 DLProf 版本。"
    ),
    "'{path}' was written by DLProf {version}; versions before 1.2 cannot be read.": (
        "'{path}' 由 DLProf {version} 写成；无法读取 1.2 之前的版本。"
    ),
    "'{path}' was written by DLProf {version}; the newest that can be read is 1.8.": (
        "'{path}' 由 DLProf {version} 写成；可读取的最新版本为 1.8。"
    ),
    "'{path}' was written by DLProf {version}; the newest that can be read is {known}.": (
        "'{path}' 由 DLProf {version} 写成；可读取的最新版本为 {known}。"
    ),
    "'{database}' was written by version {version}, whose tables differ from today's.": (
        "'{database}' 由版本 {version} 写成，其表与当前版本不同。"
    ),
    "'{path}' was written by nvprof or the Visual Profiler, which are not supported.": (
        "'{path}' 由 nvprof 或 Visual Profiler 写成，不受支持。"
    ),
    "No database at '{path}'.": "'{path}' 处没有数据库。",
    "The database '{path}' is damaged: {text}.": "数据库 '{path}' 已损坏：{text}。",
    "The database '{path}' is damaged: {error}.": "数据库 '{path}' 已损坏：{error}。",
    "The database '{path}' is being written by another process.": (
        "数据库 '{path}' 正在由另一个进程写入。"
    ),
    "The database '{path}' cannot be written: {error}.": "无法写入数据库 '{path}'：{error}。",
    "The database '{path}' exists already.": "数据库 '{path}' 已经存在。",
    "The database '{path}' holds no CUDA activity.": "数据库 '{path}' 不含 CUDA 活动。",
    "The database cannot be read: {error}.": "无法读取数据库：{error}。",
    "The database is being written to, or its last change was broken off in the middle.": (
        "数据库正在写入，或其最近一次更改中途中断。"
    ),
    "The profile '{path}' is a folder, not a file.": "性能分析 '{path}' 是文件夹，不是文件。",
    "The profile '{path}' does not exist.": "性能分析 '{path}' 不存在。",
    "The profile '{path}' cannot be opened: {error}.": "无法打开性能分析 '{path}'：{error}。",
    "The profile '{path}' is empty.": "性能分析 '{path}' 是空的。",
    "The profile '{path}' is damaged or incomplete: {error}.": (
        "性能分析 '{path}' 已损坏或不完整：{error}。"
    ),
    "The profile '{path}' holds no CUDA activity.": "性能分析 '{path}' 不含 CUDA 活动。",
    "The export '{path}' has a table {table} without {names}.": (
        "导出 '{path}' 的表 {table} 缺少 {names}。"
    ),
}

_FILE_HINTS: dict[str, str] = {
    "Make one with: dlprof --database=<nsys export>": (
        "请这样生成：dlprof --database=<nsys export>"
    ),
    "Make it again with: dlprof --database=<nsys export>": (
        "请重新生成：dlprof --database=<nsys export>"
    ),
    "Make one from an Nsight Systems export: dlprof --database=profile.sqlite": (
        "请由 Nsight Systems 导出生成：dlprof --database=profile.sqlite"
    ),
    "The database is damaged: it holds no {name} where each row has one.": (
        "数据库已损坏：每一行都应有 {name}，但其中缺失。"
    ),
    "Make it anew with dlprof, or run an integrity check with sqlite3.": (
        "请用 dlprof 重新生成，或用 sqlite3 检查完整性。"
    ),
    "Make an export with: nsys export -t sqlite -o profile.sqlite profile.nsys-rep": (
        "请这样导出：nsys export -t sqlite -o profile.sqlite profile.nsys-rep"
    ),
    "dlprofviewer opens the dlprof_dldb.sqlite that dlprof wrote.": (
        "dlprofviewer 打开 dlprof 写成的 dlprof_dldb.sqlite。"
    ),
    "Try again in a moment.": "请稍后再试。",
    "Try again when that one has finished.": "请在那个进程结束后再试。",
    "Try again; if that does not help, aggregate it anew, which repairs it.": (
        "请再试一次；如果没有用，请重新聚合，这会修复它。"
    ),
    "Check that the folder can be written and the disk is not full (--output_path).": (
        "请检查文件夹可写且磁盘未满（--output_path）。"
    ),
    "Check the permissions of the file.": "请检查文件的权限。",
    "Use --force=true to replace it.": "用 --force=true 替换它。",
    "Export it again.": "请重新导出。",
    "Export the report again with a current Nsight Systems.": (
        "请用当前的 Nsight Systems 重新导出报告。"
    ),
    "Copy or export it again; a capture or a copy may have been cut off.": (
        "请重新复制或导出；捕获或复制可能中途中断。"
    ),
    "Copy it again, or aggregate the Nsight Systems export that it was made from.": (
        "请重新复制，或聚合生成它的 Nsight Systems 导出。"
    ),
    "Copy it to a folder of your own and open the copy.": "请复制到自己的文件夹并打开副本。",
    "Give the path of an Nsight Systems export (nsys export -t sqlite).": (
        "请给出 Nsight Systems 导出的路径（nsys export -t sqlite）。"
    ),
    "Nsight Systems reports (.nsys-rep, .qdrep) need: nsys export -t sqlite <report>": (
        "Nsight Systems 报告（.nsys-rep、.qdrep）需要：nsys export -t sqlite <report>"
    ),
    "Add an aggregation to it with: dlprof --database={path}": (
        "请这样为它添加聚合：dlprof --database={path}"
    ),
    "Aggregate the Nsight Systems export again: dlprof --database=profile.sqlite": (
        "请重新聚合 Nsight Systems 导出：dlprof --database=profile.sqlite"
    ),
    "Aggregate the profile that it was made from with --mode={mode}.": (
        "请用 --mode={mode} 聚合生成它的性能分析。"
    ),
    "Update open-dlprof.": "请更新 open-dlprof。",
    "Omit --mode, or aggregate the Nsight Systems export.": (
        "请省略 --mode，或聚合 Nsight Systems 导出。"
    ),
}

_CAPTURE: dict[str, str] = {
    "Profile with CUDA tracing on and check that the application used a GPU.": (
        "请打开 CUDA 跟踪进行分析，并检查应用程序是否使用了 GPU。"
    ),
    "Profile with CUDA tracing on (nsys profile -t cuda,nvtx ...) and check that the application "
    "used a GPU.": (
        "请打开 CUDA 跟踪进行分析（nsys profile -t cuda,nvtx ...），并检查应用程序是否使用了 GPU。"
    ),
    "Profile with Nsight Systems: nsys profile -t cuda,nvtx --export=sqlite ...": (
        "请用 Nsight Systems 进行分析：nsys profile -t cuda,nvtx --export=sqlite ..."
    ),
    "Profile a JAX program with nsys -t cuda,nvtx, or use --mode=simple.": (
        "请用 nsys -t cuda,nvtx 分析 JAX 程序，或使用 --mode=simple。"
    ),
    "Train under torch.autograd.profiler.emit_nvtx(), or use --mode=simple.": (
        "请在 torch.autograd.profiler.emit_nvtx() 下训练，或使用 --mode=simple。"
    ),
    "Run NVIDIA's TensorFlow with TF_ENABLE_NVTX_RANGES=1 under nsys -t cuda,nvtx, or use "
    "--mode=simple.": (
        "请在 nsys -t cuda,nvtx 下以 TF_ENABLE_NVTX_RANGES=1 运行 NVIDIA 的 TensorFlow，"
        "或使用 --mode=simple。"
    ),
    "Run inference under nsys -t cuda,nvtx, or use --mode=simple.": (
        "请在 nsys -t cuda,nvtx 下运行推理，或使用 --mode=simple。"
    ),
    "'{program}' cannot be run: {error}.": "无法运行 '{program}'：{error}。",
    "Check the installation of Nsight Systems.": "请检查 Nsight Systems 的安装。",
    "exit status {number}": "退出状态 {number}",
    "signal {number}": "信号 {number}",
    "Nsight Systems could not export '{report}' ({ended}).": (
        "Nsight Systems 无法导出 '{report}'（{ended}）。"
    ),
    "It said nothing; a newer nsys may be needed for this report.": (
        "它没有给出说明；此报告可能需要更新的 nsys。"
    ),
    "Nsight Systems (nsys) was not found on this machine.": (
        "在这台机器上找不到 Nsight Systems (nsys)。"
    ),
    "Install it (https://developer.nvidia.com/nsight-systems), name it with --nsys_path or "
    "{variable}, or export the report where it was made: nsys export -t sqlite <report>": (
        "请安装它（https://developer.nvidia.com/nsight-systems），"
        "用 --nsys_path 或 {variable} 指定它，"
        "或在生成报告的机器上导出：nsys export -t sqlite <report>"
    ),
    "There is no program '{candidate}' (from {source}).": (
        "没有程序 '{candidate}'（来自 {source}）。"
    ),
    "There is no program '{candidate}'.": "没有程序 '{candidate}'。",
    "Give the path of the nsys program, or of the folder that holds it.": (
        "请给出 nsys 程序或其所在文件夹的路径。"
    ),
}

_AGGREGATION: dict[str, str] = {
    "The mode '{mode}' is not supported in this version.": "此版本不支持模式 '{mode}'。",
    "Use --mode=auto, {known} or --mode=simple.": "请使用 --mode=auto、{known} 或 --mode=simple。",
    "The profile holds no {title} op ranges.": "性能分析中没有 {title} 的算子范围。",
    "The DLProf database was made in mode {mode}; it cannot be read in mode {wanted}.": (
        "该 DLProf 数据库以模式 {mode} 生成，不能以模式 {wanted} 读取。"
    ),
    "The ranges of '{source}' were read in mode {stored}, which a database keeps.": (
        "'{source}' 的范围以模式 {stored} 读取，数据库会保持该模式。"
    ),
    "The profile has no NVTX domain '{name}'.": "性能分析中没有 NVTX 域 '{name}'。",
    "There are: {names}.": "现有：{names}。",
    "It has no custom domains.": "它没有自定义域。",
    "Did you mean {name}? {listed}": "您是指 {name} 吗？{listed}",
    "The key node '{wanted}' names {count} ops.": "关键节点 '{wanted}' 对应 {count} 个算子。",
    "Give one Op ID: {names}.": "请给出一个算子 ID：{names}。",
    "No op or range is called '{wanted}'.": "没有名为 '{wanted}' 的算子或范围。",
    "The closest names are: {names}.": "最接近的名称：{names}。",
    "List the ops with --reports=detail and give an Op ID.": (
        "请用 --reports=detail 列出算子并给出一个算子 ID。"
    ),
    "The iteration range {first} to {last} lies outside the profile.": (
        "迭代范围 {first} 到 {last} 超出了性能分析。"
    ),
    "The iteration {first} to start with lies outside the profile.": (
        "起始迭代 {first} 超出了性能分析。"
    ),
    "The profile has the iterations 0 to {final}.": "性能分析含有迭代 0 到 {final}。",
    "The last iteration ({last}) lies before the first ({first}).": (
        "最后一次迭代 ({last}) 在第一次 ({first}) 之前。"
    ),
    "Give --iter_start no greater than --iter_stop.": "--iter_start 不能大于 --iter_stop。",
    "Simple mode has no iterations: a key node or an iteration range cannot be used.": (
        "简单模式没有迭代：不能使用关键节点或迭代范围。"
    ),
    "Use a framework mode on a profile with framework ranges, or omit the options.": (
        "请对含有框架范围的性能分析使用框架模式，或省略这些选项。"
    ),
    "The worker's log has the details; please report them.": (
        "详情见工作进程的日志；请向我们报告。"
    ),
    "A database of NVIDIA's is never changed but converted into a new one beside it, and its "
    "folder cannot be written to.": (
        "NVIDIA 的数据库从不更改，而是在旁边转换为新的数据库，但其文件夹不可写。"
    ),
    "The database or its folder cannot be written to.": "数据库或其文件夹不可写。",
    "A report holds one aggregation and adds none.": "报告只包含一个聚合，不能添加。",
    "The page of the HTML report has not been built.": "HTML 报告的页面尚未构建。",
    "This is a checkout of the source: run `make frontend` once. A released package "
    "brings the page with it.": (
        "这是源码检出：请运行一次 `make frontend`。发布的软件包自带该页面。"
    ),
    "Only a failed or cancelled job can be tried again; this one is {state}.": (
        "只有失败或已取消的作业可以重试；此作业的状态为 {state}。"
    ),
    "The job cannot be cancelled: it is {state}.": "无法取消作业：其状态为 {state}。",
    "There is no job {job_id!r}.": "没有作业 {job_id!r}。",
    "There is no job state {raw!r}.": "没有作业状态 {raw!r}。",
    "process {pid} on {host}": "{host} 上的进程 {pid}",
    "The worker ({worker}) ended before the job did, {attempts} times.": (
        "工作进程（{worker}）在作业完成前结束，共 {attempts} 次。"
    ),
    "It may have run out of memory. Aggregate fewer iterations, or try again.": (
        "可能内存不足。请聚合较少的迭代，或再试一次。"
    ),
}

_REQUESTS: dict[str, str] = {
    "Addresses end with a slash.": "地址以斜杠结尾。",
    "There is nothing at this address.": "此地址没有内容。",
    "The viewer made a mistake.": "查看器出错了。",
    "The server's log has the details; please report them.": ("详情见服务器的日志；请向我们报告。"),
    "That cannot be done to this address.": "不能对此地址执行该操作。",
    "The Allow header lists what can.": "Allow 标头列出可执行的操作。",
    "The body is not valid JSON.": "请求正文不是有效的 JSON。",
    "The body must be a JSON object.": "请求正文必须是一个 JSON 对象。",
    "Send one JSON object.": "请发送一个 JSON 对象。",
    "The body is of a kind that cannot be read.": "无法读取此类请求正文。",
    "Send JSON, with Content-Type: application/json.": (
        "请发送 JSON，并带上 Content-Type: application/json。"
    ),
    "There is no reply of a kind that the client accepts.": "没有客户端接受的回复类型。",
    "Replies are application/json.": "回复为 application/json。",
    "This viewer does not answer to that host name.": "此查看器不响应该主机名。",
    "Start it with dlprofviewer --allowed-host NAME.": (
        "请以 dlprofviewer --allowed-host NAME 启动。"
    ),
    "The request cannot be understood.": "无法理解该请求。",
    "That is not allowed.": "不允许该操作。",
    "The change was refused: {reason}": "更改被拒绝：{reason}",
    "its origin is not known": "来源未知",
    "Reload the page, or send a bearer token.": "请重新加载页面，或发送 bearer 令牌。",
    "This address takes no body.": "此地址不接受请求正文。",
    "This viewer asks for a token.": "此查看器需要令牌。",
    "Open the address that dlprofviewer printed, or send it as a bearer token.": (
        "请打开 dlprofviewer 打印的地址，或将其作为 bearer 令牌发送。"
    ),
    "This viewer answers the machine that it runs on only.": "此查看器只响应其所在的机器。",
    "Start it with dlprofviewer --bind, which makes a token.": (
        "请以 dlprofviewer --bind 启动，它会生成令牌。"
    ),
    "The query took longer than {time_limit_s:g} s and was stopped.": (
        "查询超过 {time_limit_s:g} 秒，已停止。"
    ),
    "Reading '{path}' took more than {limit_s:g} s of processor time and was stopped.": (
        "读取 '{path}' 占用的处理器时间超过 {limit_s:g} 秒，已停止。"
    ),
    "Make it again with: dlprof --database=<nsys export>. If it is only large, raise {name}.": (
        "请用 dlprof --database=<nsys 导出文件> 重新生成。如果它只是很大，请调高 {name}。"
    ),
    "Filter the table further, or raise DLPROF_QUERY_TIMEOUT_S.": (
        "请进一步筛选表格，或调高 DLPROF_QUERY_TIMEOUT_S。"
    ),
}

_PARAMETERS: dict[str, str] = {
    "view must be one of {names}, not {view!r}.": "view 必须是 {names} 之一，而不是 {view!r}。",
    "theme must be one of {names}, not {raw!r}.": "theme 必须是 {names} 之一，而不是 {raw!r}。",
    "page_size must be one of {allowed}, not {size}.": (
        "page_size 必须是 {allowed} 之一，而不是 {size}。"
    ),
    "{name} must be a whole number from 0 on, not {raw!r}.": (
        "{name} 必须是不小于 0 的整数，而不是 {raw!r}。"
    ),
    "{name} must be a whole number from 0 on.": "{name} 必须是不小于 0 的整数。",
    "{name} must be a whole number from 1 to {highest}, not {raw!r}.": (
        "{name} 必须是 1 到 {highest} 的整数，而不是 {raw!r}。"
    ),
    "{name} must be 1 or 0, not {raw!r}.": "{name} 必须是 1 或 0，而不是 {raw!r}。",
    "{name} must be a number, not {raw!r}.": "{name} 必须是数字，而不是 {raw!r}。",
    "key_node must be a text.": "key_node 必须是文本。",
    "The range is reversed: it starts at {start} and stops at {stop}.": (
        "范围颠倒：从 {start} 开始，到 {stop} 结束。"
    ),
    "iter_start must not be greater than iter_stop.": "iter_start 不能大于 iter_stop。",
    "{name} is {value}, and the last iteration of this key node is {last}.": (
        "{name} 为 {value}，而此关键节点的最后一次迭代是 {last}。"
    ),
    "Choose from 0 to {last}.": "请从 0 到 {last} 中选择。",
    "There is no figure {name!r}.": "没有图形 {name!r}。",
    "There is no export format {format!r}.": "没有导出格式 {format!r}。",
    "There is no value named {key!r} here.": "这里没有名为 {key!r} 的值。",
    "There is no parameter or filter named {name!r} here.": (
        "这里没有名为 {name!r} 的参数或筛选条件。"
    ),
    "{title} has no column {name!r}.": "{title} 没有列 {name!r}。",
    "{title} cannot be sorted by {name!r}.": "{title} 不能按 {name!r} 排序。",
    "Did you mean {names}?": "您是指 {names} 吗？",
    "Known: {names}.": "已知：{names}。",
    "It has {names}.": "它有 {names}。",
    "The profile has no domain {wanted!r}.": "性能分析中没有域 {wanted!r}。",
    "The profile has no iteration {iteration}.": "性能分析中没有迭代 {iteration}。",
    "The profile has no aggregation {aggr_id}.": "性能分析中没有聚合 {aggr_id}。",
    "The aggregation has no op {op_id!r} in this domain.": "此域的聚合中没有算子 {op_id!r}。",
    "Choose another; the profile may have been made anew.": (
        "请选择另一个；性能分析可能已重新生成。"
    ),
    "No profile {wanted!r} is served here.": "这里没有提供性能分析 {wanted!r}。",
    "GET /api/v1/profiles/ lists those that are.": "GET /api/v1/profiles/ 列出提供的性能分析。",
}

_TITLES: dict[str, str] = {
    "Kernels": "内核",
    "Kernels of the op": "算子的内核",
    "Kernels in the iteration": "迭代中的内核",
    "Kernels of the op in the iteration": "迭代中该算子的内核",
    "Iterations": "迭代",
    "GPUs": "GPU 列表",
    "Advice": "优化建议",
    "Aggregations": "聚合",
    "Ops": "算子",
    "Op": "算子详情",
    "Op types": "算子类型",
    "Group ops": "算子组",
    "Ops in the iteration": "迭代中的算子",
    "Profiles": "性能分析",
    "Jobs": "作业",
}

ERRORS: dict[str, str] = {
    **_TITLES,
    **_FILES,
    **_FILE_HINTS,
    **_CAPTURE,
    **_AGGREGATION,
    **_REQUESTS,
    **_PARAMETERS,
}
