"""What joining rank files says."""

from __future__ import annotations

RANKS: dict[str, str] = {
    "Ranks": "各 rank",
    "Collectives": "集合通信",
    "Computing": "计算",
    "Exposed communication": "暴露的通信",
    "Waiting for other ranks": "等待其他 rank",
    "No ranks in this profile": "此性能分析中没有 rank",
    "{name}: %{{customdata:,}} ns<extra></extra>": "{name}：%{{customdata:,}} ns<extra></extra>",
    "Rank": "Rank 编号",
    "Time ({unit})": "时间 ({unit})",
    "No process in '{file}' ran any work on a GPU: it is no rank.": (
        "“{file}”中没有任何进程在 GPU 上运行：它不是一个 rank。"
    ),
    "Leave the file out.": "请去掉该文件。",
    "'{first}' and '{second}' hold the same rank.": "“{first}”和“{second}”是同一个 rank。",
    "Give each rank once.": "每个 rank 只给出一次。",
    "The rank files hold ranges of different frameworks: {files}.": (
        "这些 rank 文件含有不同框架的范围：{files}。"
    ),
    "Give files of one job, or read all of them alike with --mode=simple.": (
        "请给出同一作业的文件，或用 --mode=simple 统一读取。"
    ),
    "'{file}' was not captured at the time of the other files.": (
        "“{file}”与其他文件不是在同一时间采集的。"
    ),
    "Give the files of one run, one for each rank.": "请给出同一次运行的文件，每个 rank 一个。",
    "Ranks are missing: {ranks}; the others may have waited longer than is shown.": (
        "缺少 rank：{ranks}；其他 rank 的实际等待可能比显示的更长。"
    ),
    "The key node of most ranks, '{name}', was not the one found in {files}.": (
        "大多数 rank 的关键节点是“{name}”，但 {files} 中找到的不是它。"
    ),
    "The ranks ran with different versions of the driver or of CUDA.": (
        "各 rank 的驱动程序或 CUDA 版本不同。"
    ),
    "Neither start times nor collectives tell how the clocks of these files relate: "
    "{files}; waiting in collectives is unknown for them.": (
        "开始时间和集合通信都无法说明这些文件的时钟关系：{files}；它们在集合通信中的等待未知。"
    ),
    "Clocks of machines differed by more than 1 ms and were corrected: {files}.": (
        "各机器的时钟相差超过 1 ms，已校正：{files}。"
    ),
    "The key node ran {count} times on most ranks, but not on all ({ranks}): every stop of any "
    "rank ends an iteration.": (
        "关键节点在大多数 rank 上运行了 {count} 次，但并非全部如此（{ranks}）："
        "任一 rank 的每次结束都会结束一次迭代。"
    ),
    "'{file}' cannot be joined with other ranks: {error}.": (
        "“{file}”无法与其他 rank 合并：{error}。"
    ),
    "Give the Nsight Systems export, or make the database again with this version.": (
        "请给出 Nsight Systems 导出文件，或用此版本重新生成数据库。"
    ),
    "The rank file '{path}' does not exist.": "rank 文件“{path}”不存在。",
    "The rank file '{path}' was given twice.": "rank 文件“{path}”给出了两次。",
    "Give it once.": "请只给出一次。",
    "the key nodes of the ranks cannot be found in all of them": (
        "无法在所有 rank 中找到各 rank 的关键节点"
    ),
    "A process that imported rank files ended; '{path}' was not imported.": (
        "导入 rank 文件的一个进程已结束；“{path}”未导入。"
    ),
    "The machine may be short of memory: try with --workers=1.": (
        "机器内存可能不足：请用 --workers=1 重试。"
    ),
    "Workers ended {attempts} times while they imported '{path}'.": (
        "导入“{path}”时工作进程结束了 {attempts} 次。"
    ),
    "They may have run out of memory.": "可能是内存不足。",
    "There was too little memory to import '{path}'.": "内存不足，无法导入“{path}”。",
    "Say one of path, paths, upload and uploads.": ("请给出 path、paths、upload 和 uploads 之一。"),
    "{name} must be a list of at least two different texts, and of no more than {limit}.": (
        "{name} 必须是至少两个、至多 {limit} 个不同文本的列表。"
    ),
    "another version made it": "它由另一个版本生成",
    "'{first}' and '{second}' are both rank {rank}.": "“{first}”和“{second}”都是 rank {rank}。",
    "Several files are named as rank {ranks}: the ranks were numbered in the order given.": (
        "多个文件的名称都是 rank {ranks}：各 rank 按给出的顺序编号。"
    ),
    "These ranks ran no collective, though others did: {ranks}; what they waited is unknown.": (
        "这些 rank 没有运行集合通信，而其他 rank 运行了：{ranks}；它们的等待未知。"
    ),
    "ranks must be a list of different whole numbers from 0 to {limit}, one for each file.": (
        "ranks 必须是 0 到 {limit} 的不同整数的列表，每个文件一个。"
    ),
    "More than {limit} files fit the path.": "有超过 {limit} 个文件符合该路径。",
    "Give a pattern that fits the rank files of one job only.": (
        "请给出只符合一个作业的 rank 文件的模式。"
    ),
    "{file}: {error}": "{file}：{error}",
    "No profile fits that path.": "没有符合该路径的性能分析。",
    "Check the folder and the pattern.": "请检查文件夹和模式。",
}
