"""Small programs of all kinds that use the GPU, for ``tests.gpu.harmless``.

What they print does not change from run to run.
"""

from __future__ import annotations

from typing import Final

CUDA: Final = r"""
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
__global__ void add(float *values, int count)
{
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        values[at] += at % 7;
}
static void work(cudaStream_t stream, float *values, int count)
{
    for (int step = 0; step < 200; step++)
        add<<<(count + 255) / 256, 256, 0, stream>>>(values, count);
    cudaStreamSynchronize(stream);
}
int main(int argc, char **argv)
{
    const int count = 1 << 16, lanes = argc > 1 ? atoi(argv[1]) : 1;
    std::vector<std::thread> threads;
    std::vector<float *> buffers(lanes);
    double sum = 0;
    for (int lane = 0; lane < lanes; lane++) {
        cudaMalloc(&buffers[lane], count * sizeof(float));
        cudaMemset(buffers[lane], 0, count * sizeof(float));
        threads.emplace_back([=] {
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            work(stream, buffers[lane], count);
        });
    }
    for (auto &thread : threads)
        thread.join();
    std::vector<float> result(count);
    for (float *buffer : buffers) {
        cudaMemcpy(result.data(), buffer, count * sizeof(float), cudaMemcpyDeviceToHost);
        for (float value : result)
            sum += value;
    }
    printf("%.0f %s\n", sum, cudaGetErrorString(cudaGetLastError()));
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""
"""Arguments: the number of threads, the exit code."""

_TORCH: Final = """
import atexit, os, signal, sys, threading, torch
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, wanted = torch.randn(32, 64).cuda(), torch.randn(32, 8).cuda()
def step(model=model, inputs=inputs, wanted=wanted):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), wanted)
    loss.backward()
    optimizer.step()
    return loss
def train(count=30):
    for _ in range(count):
        loss = step()
    print(f"{loss.item():.3f}", flush=True)
"""
_LOADER: Final = """
class Data(torch.utils.data.Dataset):
    def __len__(self): return 128
    def __getitem__(self, at): return torch.full((64,), float(at % 5)), torch.zeros(8)
if __name__ == "__main__":
    loader = torch.utils.data.DataLoader(
        Data(), batch_size=16, num_workers=2, multiprocessing_context="{method}")
    for _ in range(2):
        for x, y in loader:
            loss = step(inputs=x.cuda(), wanted=y.cuda())
    print(f"{{loss.item():.3f}}")
"""

PYTHON: Final = {
    "driver API": """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, memory, device = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_int()
codes = [cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0),
         cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
         cuda.cuCtxSetCurrent(context), cuda.cuMemAlloc_v2(ctypes.byref(memory), 4096)]
codes += [cuda.cuMemsetD8_v2(memory, 1, 4096) for _ in range(20)] + [cuda.cuCtxSynchronize()]
print(codes)
""",
    "cupy": """
import cupy
values = cupy.arange(1 << 16, dtype=cupy.float32)
for _ in range(100):
    values = values * 0.5 + 1
print(f"{float(values.sum()):.1f}")
""",
    "numba": """
import numpy
from numba import cuda
@cuda.jit
def add(values):
    at = cuda.grid(1)
    if at < values.size:
        values[at] += 1
values = cuda.to_device(numpy.zeros(1 << 14, numpy.float32))
for _ in range(100):
    add[64, 256](values)
print(values.copy_to_host().sum())
""",
    "jax": """
import jax, jax.numpy as jnp
@jax.jit
def step(x):
    return jnp.tanh(x @ x.T / 64 + 1)
x = jnp.ones((64, 64))
for _ in range(50):
    x = step(x)
print(f"{float(x.sum()):.2f}", jax.default_backend())
""",
    "onnxruntime": """
import numpy, onnxruntime
from onnx import TensorProto, helper
if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
    raise SystemExit("no provider for CUDA")
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [64, 64])
graph = helper.make_graph(
    [helper.make_node("MatMul", ["x", "x"], ["y"])], "graph", [value("x")], [value("y")])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
session = onnxruntime.InferenceSession(
    model.SerializeToString(), providers=["CUDAExecutionProvider"])
for _ in range(50):
    (y,) = session.run(None, {"x": numpy.ones((64, 64), numpy.float32)})
print(y.sum(), session.get_providers()[0])
""",
    "eager": f"{_TORCH}\ntrain()",
    "compiled": f"""{_TORCH}
compiled = torch.compile(model)
for _ in range(20):
    loss = step(compiled)
print(f"{{loss.item():.3f}}")
""",
    "CUDA graph": f"""{_TORCH}
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    step(); step()
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(50):
    graph.replay()
print(f"{{loss.item():.3f}}")
""",
    "loader, fork": _TORCH + _LOADER.format(method="fork"),
    "loader, spawn": _TORCH + _LOADER.format(method="spawn"),
    "threads": f"""{_TORCH}
def infer():
    with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(50):
            model(inputs)
        torch.cuda.current_stream().synchronize()
threads = [threading.Thread(target=infer) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
train()
""",
    "child": f"""
import subprocess, sys
if len(sys.argv) < 2:
    sys.exit(subprocess.run([sys.executable, __file__, "child"]).returncode)
{_TORCH}
train()
sys.exit(4)
""",
    "os._exit": f"{_TORCH}\ntrain()\nos._exit(7)",
    "abort": f"{_TORCH}\ntrain()\nos.abort()",
    "SIGTERM": f"{_TORCH}\ntrain()\nos.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()",
    "exception": f"{_TORCH}\ntrain()\nraise ValueError",
    "exception at exit": f"""{_TORCH}
def fail():
    step()
    raise ValueError
atexit.register(fail)
train()
""",
    "out of memory": f"""{_TORCH}
train()
torch.empty(1 << 45, device="cuda")
""",
    "torch.profiler": f"""{_TORCH}
train()
with torch.profiler.profile() as profiler:
    train()
train()
print(len(profiler.events()) > 0)
""",
    "torch.profiler first": f"""{_TORCH}
with torch.profiler.profile() as profiler:
    train()
train()
print(len(profiler.events()) > 0)
""",
}

WINDOWS: Final = (
    _TORCH
    + """
import ctypes, faulthandler, json, statistics, time
faulthandler.dump_traceback_later(35)
def report(name, value):
    print(json.dumps({name: value}), flush=True)
library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
big = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(100)]).cuda()
x = torch.randn(64, 256).cuda()
graph = None
if sys.argv[1] == "graph":
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        big(x).sum().backward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        big(x).sum().backward()
def run(count=60):
    times = []
    for _ in range(count):
        began = time.perf_counter()
        if graph is not None:
            graph.replay()
        else:
            big(x).sum().backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return round(statistics.median(times[count // 4 :]) * 1e3, 3)
def profile():
    with torch.profiler.profile() as profiler:
        run(5)
    return sum("gemm" in e.name.lower() or "cutlass" in e.name.lower() for e in profiler.events())
run()
for number in range(3):
    report(f"before {number} ms", run())
    report(f"begin {number}", library.dlprof_collector_begin())
    report(f"inside {number} ms", run())
    big(x).sum().backward()  # work on its way
    began = time.perf_counter()
    report(f"detach {number}", library.dlprof_collector_detach())
    report(f"detach {number} took ms", round((time.perf_counter() - began) * 1e3, 1))
    report(f"after {number} ms", run())
if sys.argv[1] == "profiler":
    report("kernels of torch.profiler", profile())
    begins = [library.dlprof_collector_begin()]
    for _ in range(5):
        run(5)
        begins.append(library.dlprof_collector_begin())
    report("begin after torch.profiler", begins)
    report("inside again ms", run())
    report("detach", library.dlprof_collector_detach())
    report("after ms", run())
    report("kernels of torch.profiler again", profile())
"""
)
"""Steps before, inside and after windows; the argument: ``plain``, ``graph`` or ``profiler``."""
