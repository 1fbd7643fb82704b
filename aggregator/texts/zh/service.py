"""Jobs, uploads and the profiles that are added to a viewer."""

from __future__ import annotations

_JOBS: dict[str, str] = {
    "The job was cancelled.": "作业已取消。",
    "The job took longer than the {limit_s:g} s that a job may take.": (
        "作业用时超过了允许的 {limit_s:g} 秒。"
    ),
    "Aggregate fewer iterations, or raise DLPROF_JOB_TIME_LIMIT_S.": (
        "请聚合较少的迭代，或调高 DLPROF_JOB_TIME_LIMIT_S。"
    ),
    "The job needed more than the {mib:,.0f} MiB that a job may use.": (
        "作业所需内存超过了允许的 {mib:,.0f} MiB。"
    ),
    "The job needed more memory than there is.": "作业所需内存超过了可用内存。",
    "Aggregate fewer iterations, or raise DLPROF_JOB_MEMORY_LIMIT_BYTES.": (
        "请聚合较少的迭代，或调高 DLPROF_JOB_MEMORY_LIMIT_BYTES。"
    ),
    "The job failed by a mistake of ours: {kind}.": "作业因我们的错误而失败：{kind}。",
    "This profile was there already.": "该性能分析早已存在。",
    "What it was to import has been deleted.": "要导入的内容已被删除。",
    "{limit:,} jobs wait already, and no more may.": "已有 {limit:,} 个作业在等待，不能再增加。",
    "Try again when some are done, or cancel those that nobody needs.": (
        "请等部分作业完成后再试，或取消不需要的作业。"
    ),
    "The viewer's own state cannot be used: {reason}.": "无法使用查看器自身的状态：{reason}。",
    "The database is being written to.": "数据库正在被写入。",
    "Rows of the table went while they were read.": "表中的行在读取过程中消失了。",
    "Look whether the aggregation is still there, and try again.": (
        "请查看该聚合是否仍然存在，然后重试。"
    ),
    "Its disk may be full, or its folder not be writable.": "磁盘可能已满，或文件夹不可写。",
}

_BODIES: dict[str, str] = {
    "The body is larger than the {limit:,} bytes that it may have.": (
        "请求体超过了允许的 {limit:,} 字节。"
    ),
    "{name} must be a text of at most {longest} characters.": (
        "{name} 必须是不超过 {longest} 个字符的文本。"
    ),
    "{name} must be one line of plain text.": "{name} 必须是一行纯文本。",
    "{name} must be a whole number from 1 on.": "{name} 必须是不小于 1 的整数。",
    "There is no such mode.": "没有这种模式。",
    "name must be a text.": "name 必须是文本。",
    "file_name must not be empty.": "file_name 不能为空。",
    "The header {name} must be a whole number.": "请求头 {name} 必须是整数。",
}

_STORAGE: dict[str, str] = {
    "Jobs work on this profile, or wait to.": "有作业正在处理或等待处理此性能分析。",
    "Cancel them first.": "请先取消这些作业。",
    "The disk of the viewer has no room for this file.": "查看器的磁盘空间不足以存放此文件。",
    "Delete profiles first.": "请先删除一些性能分析。",
    "Stored profiles may take {quota:,} bytes; with this file they would take more.": (
        "存储的性能分析最多可占 {quota:,} 字节；加上此文件将超出。"
    ),
    "Delete profiles first, or raise DLPROF_UPLOAD_QUOTA_BYTES.": (
        "请先删除一些性能分析，或调高 DLPROF_UPLOAD_QUOTA_BYTES。"
    ),
    "{name!r} is not stored by this viewer.": "{name!r} 不是由此查看器存储的。",
    "The file has {size:,} bytes, and {limit:,} are taken at most.": (
        "文件有 {size:,} 字节，最多接受 {limit:,} 字节。"
    ),
    "Aggregate it with dlprof --database, or raise DLPROF_MAX_PROFILE_BYTES.": (
        "请用 dlprof --database 聚合它，或调高 DLPROF_MAX_PROFILE_BYTES。"
    ),
    "There is no upload {upload_id!r}.": "没有上传 {upload_id!r}。",
    "It may have expired: begin anew.": "它可能已过期：请重新开始。",
    "{here:,} of {size:,} bytes are here; the part does not fit there.": (
        "已收到 {size:,} 字节中的 {here:,} 字节；此部分接不上。"
    ),
    "Send the part that begins at this offset.": "请发送从该偏移量开始的部分。",
    "{here:,} of {size:,} bytes are here.": "已收到 {size:,} 字节中的 {here:,} 字节。",
    "Send the rest first.": "请先发送其余部分。",
    "The disk of the viewer is full.": "查看器的磁盘已满。",
    "The disk of the viewer refuses: {reason}.": "查看器的磁盘拒绝写入：{reason}。",
    "Make room on it, then go on from the offset.": "请腾出空间，然后从该偏移量继续。",
    "There is no file of that path in the folders that may be registered from.": (
        "允许登记的文件夹中没有该路径的文件。"
    ),
    "Serve its folder, name it in DLPROF_PROFILE_FOLDERS, or upload the file.": (
        "请提供其文件夹、在 DLPROF_PROFILE_FOLDERS 中写明它，或上传该文件。"
    ),
}

_ADMISSION: dict[str, str] = {
    "Copy or export it again.": "请重新复制或导出。",
    "Export the report again with nsys.": "请用 nsys 重新导出报告。",
    "The file is packed ({kind}), and packed files are not taken.": (
        "文件是压缩的（{kind}），不接受压缩文件。"
    ),
    "Unpack it first.": "请先解压。",
    "The file is no profile: neither SQLite nor a report of Nsight Systems.": (
        "文件不是性能分析：既不是 SQLite，也不是 Nsight Systems 报告。"
    ),
    "Take an SQLite export (nsys export -t sqlite), a .nsys-rep, a trace of "
    "torch.profiler, or a DLProf database.": (
        "请使用 SQLite 导出（nsys export -t sqlite）、.nsys-rep、torch.profiler 的跟踪文件"
        "或 DLProf 数据库。"
    ),
    "Let the viewer's user read it.": "请让运行查看器的用户能够读取它。",
    "The file is JSON, but no complete trace of torch.profiler.": (
        "文件是 JSON，但不是完整的 torch.profiler 跟踪文件。"
    ),
    "Take what export_chrome_trace of torch.profiler wrote (.json or .json.gz).": (
        "请使用 torch.profiler 的 export_chrome_trace 写出的文件（.json 或 .json.gz）。"
    ),
    "A report of Nsight Systems can be opened by nsys only, which is not installed.": (
        "Nsight Systems 报告只能由 nsys 打开，而它没有安装。"
    ),
    "Export it where it was made: nsys export -t sqlite <report>": (
        "请在生成它的机器上导出：nsys export -t sqlite <report>"
    ),
    "The file is damaged or incomplete: {reason}.": "文件已损坏或不完整：{reason}。",
    "The file is cut off: it has {size:,} of {full:,} bytes.": (
        "文件被截断：只有 {full:,} 字节中的 {size:,} 字节。"
    ),
    "The SQLite file is neither an export of Nsight Systems nor a DLProf database.": (
        "此 SQLite 文件既不是 Nsight Systems 导出，也不是 DLProf 数据库。"
    ),
    "Make an export with: nsys export -t sqlite profile.nsys-rep": (
        "请这样导出：nsys export -t sqlite profile.nsys-rep"
    ),
    "The export holds a view, a trigger or a virtual table ({name!r}), and exports "
    "hold plain tables only.": (
        "导出中含有视图、触发器或虚拟表（{name!r}），而导出只应含有普通表。"
    ),
    "The export holds a table with computed columns ({name!r}).": (
        "导出中含有带计算列的表（{name!r}）。"
    ),
}

SERVICE: dict[str, str] = {**_JOBS, **_BODIES, **_STORAGE, **_ADMISSION}
