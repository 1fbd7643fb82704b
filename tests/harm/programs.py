"""Valid programs of all kinds: what each prints must be the same with and without the markers.

They need nothing but PyTorch, so that any Python that has it can run them.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import hashlib
import io
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

PROGRAMS: dict[str, Callable[[], None]] = {}
COMPILED: dict[str, Callable[[], None]] = {}
STEPS = 12


def program(function: Callable[[], None]) -> Callable[[], None]:
    """Add a program."""
    PROGRAMS[function.__name__] = function
    return function


def compiled(function: Callable[[], None]) -> Callable[[], None]:
    """Add a program that TorchDynamo compiles: its counters must be the same too."""
    COMPILED[function.__name__] = function
    return function


def show(*values: Any) -> None:
    """Print a digest of tensors, states and anything else, and of the random states."""
    digest = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            found = value.detach()
            digest.update(str((found.dtype, tuple(found.shape))).encode())
            digest.update(found.reshape(-1).view(torch.uint8).numpy().tobytes())
        elif isinstance(value, nn.Module):
            add(dict(value.state_dict()))
        elif isinstance(value, dict):
            for key in value:
                digest.update(str(key).encode())
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for part in value:
                add(part)
        else:
            digest.update(repr(value).encode())

    add([*values, torch.get_rng_state()])
    print(digest.hexdigest())


class Block(nn.Module):
    """A layer with a residual connection."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.linear(self.norm(x)))


class Net(nn.Module):
    """A small model with modules in modules and dropout."""

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(blocks)])
        self.head = nn.Sequential(nn.Dropout(0.1), nn.Linear(4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def batch(rows: int = 3) -> Any:
    """A batch of random numbers."""
    return torch.randn(rows, 4)


def train(
    model: Any, optimizer: Any = None, steps: int = STEPS, loss: Callable[[Any], Any] | None = None
) -> list[Any]:
    """Train and return the losses."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        value = loss(model(batch())) if loss else model(batch()).square().mean()
        value.backward()
        optimizer.step()
        losses.append(value.detach())
    return losses


# --- optimizers and loops -------------------------------------------------------------------------


@program
def optimizers() -> None:
    for make in (
        functools.partial(torch.optim.Adam, foreach=True),
        functools.partial(torch.optim.AdamW, fused=True),
        functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9),
    ):
        model = Net()
        optimizer = make(model.parameters())
        show(train(model, optimizer, 4), model, optimizer.state_dict()["state"])


@program
def closures() -> None:
    model = Net().eval()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    data = batch()

    def closure() -> Any:
        optimizer.zero_grad()
        loss = model(data).square().mean()
        loss.backward()
        return loss

    show([optimizer.step(closure).detach() for _ in range(4)], model)


@program
def two_optimizers() -> None:
    maker, judge = nn.Linear(4, 4), nn.Linear(4, 1)
    of_maker = torch.optim.Adam(maker.parameters())
    of_judge = torch.optim.Adam(judge.parameters())
    for _ in range(STEPS):
        of_judge.zero_grad()
        (judge(maker(batch()).detach()).mean() - judge(batch()).mean()).backward()
        of_judge.step()
        of_maker.zero_grad()
        (-judge(maker(batch())).mean()).backward()
        of_maker.step()
    show(maker, judge)


@program
def mixed_precision() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for at in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(batch()).float().square().mean() / 2
        scaler.scale(loss).backward()
        if at % 2:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=False)
    show(model)


@program
def checkpoints() -> None:
    from torch.utils.checkpoint import checkpoint

    for reentrant in (True, False):
        model = Net()

        class Again(nn.Module):
            def __init__(self, model: Any = model, reentrant: bool = reentrant) -> None:
                super().__init__()
                self.model, self.reentrant = model, reentrant

            def forward(self, x: Any) -> Any:
                x.requires_grad_()
                return checkpoint(self.model, x, use_reentrant=self.reentrant)

        show(train(Again()), model)


@program
def hooks() -> None:
    seen: list[str] = []
    model = Net()
    handles = [
        model.register_forward_pre_hook(lambda *_: seen.append("pre")),
        model.register_forward_hook(lambda *_: seen.append("post")),
        model.register_full_backward_hook(lambda *_: seen.append("backward")),
        model.head.register_full_backward_pre_hook(lambda *_: seen.append("pre backward")),
        nn.modules.module.register_module_forward_hook(lambda *_: seen.append("global")),
    ]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: seen.append("step"))
    losses = train(model, optimizer)
    for handle in handles:
        handle.remove()
    show(losses, model, seen)


@program
def inference_of_many_shapes() -> None:
    model = Net().eval()
    with torch.inference_mode():
        show([model(batch(1 + at % 5)) for at in range(40)])


@program
def evaluation_between_epochs() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        model.train()
        losses = train(model, optimizer, 5)
        model.eval()
        with torch.no_grad():
            show(losses, [model(batch(2)) for _ in range(3)])


@program
def models_that_grow() -> None:
    model = Net(1)
    for _ in range(4):
        show(train(model, steps=5))
        model.blocks.append(Block())
        model.register_module("extra", nn.Linear(4, 2))
        model.head = nn.Sequential(model.head, nn.Tanh())


# --- modules and optimizers of unusual classes ----------------------------------------------------


@program
def frozen_script() -> None:
    model = torch.jit.freeze(torch.jit.script(Net().eval()))
    show([model(torch.ones(3, 4)) for _ in range(STEPS)])


@program
def script_and_trace() -> None:
    model = Net().eval()
    scripted = torch.jit.script(model)
    traced = torch.jit.trace(model, torch.ones(3, 4))
    show([(scripted(x), traced(x)) for x in (batch() for _ in range(STEPS))])
    show(train(torch.jit.script(Net())))


@program
def scripted_ranges() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("mine"):
            return x + 1

    function.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    try:
        show(torch.jit.script(function)(torch.ones(2)))
    except Exception as error:
        print(type(error).__name__)


@program
def lazy_parameters() -> None:
    model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.zero_grad()
    model(batch())
    show(train(model, optimizer), type(model[0]).__name__)


class ComparedSGD(torch.optim.SGD):
    """An optimizer that compares by value, and so has no hash."""

    def __eq__(self, other: object) -> bool:
        raise TypeError("not comparable")

    __hash__: Any = None


@program
def optimizer_without_hash() -> None:
    model = Net()
    show(train(model, ComparedSGD(model.parameters(), lr=0.1)), model)


@dataclasses.dataclass
class Normalize(nn.Module):
    """A module that compares by value, and so has no hash."""

    mean: float
    scale: float

    def __post_init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        nn.Module.__init__(made)
        return made

    def forward(self, x: Any) -> Any:
        return (x - self.mean) / self.scale * self.weight


@program
def module_without_hash() -> None:
    model = Normalize(1.0, 2.0)
    show([model(batch()) for _ in range(STEPS)])


class Shadowing(nn.Module):
    """A module whose attributes have the names of methods."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.children = [1, 2]
        self.named_modules = "mine"
        self.modules: Any = {}

    def parameters(self, kind: str) -> Any:
        raise LookupError(kind)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


@program
def attributes_named_as_methods() -> None:
    model = Shadowing()
    show(train(model, torch.optim.SGD(model.linear.parameters(), lr=0.1)), model.linear)
    outer = nn.Sequential(Shadowing())
    show([outer(batch()) for _ in range(STEPS)])


_NEEDED = frozenset(
    {
        *("forward", "linear", "__dict__", "_compiled_call_impl", "_call_impl", "_slow_forward"),
        *("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks"),
        *("_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs", "_modules"),
        *("_forward_hooks_always_called", "_parameters", "_buffers"),
    }
)


class Refusing(nn.Module):
    """A module in which everything but what its call needs raises an error, once it is made."""

    is_strict = False

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def __getattribute__(self, name: str) -> Any:
        if name not in _NEEDED and Refusing.is_strict:
            raise LookupError(name)
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        raise LookupError("==")

    def __hash__(self) -> int:
        raise LookupError("hash")

    def __len__(self) -> int:
        raise LookupError("len")

    def __bool__(self) -> bool:
        raise LookupError("bool")

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class RefusingSGD(torch.optim.SGD):
    """An optimizer in which everything but what a step needs raises an error, once it is made."""

    is_strict = False

    def __getattribute__(self, name: str) -> Any:
        own = object.__getattribute__(self, "__dict__")
        is_known = name in own or (name != "__dict__" and hasattr(torch.optim.SGD, name))
        if not is_known and name not in {"grad_scale", "found_inf"} and RefusingSGD.is_strict:
            raise LookupError(name)
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        raise LookupError("==")

    def __hash__(self) -> int:
        raise LookupError("hash")


@program
def everything_else_raises() -> None:
    model = Refusing()
    optimizer = RefusingSGD(model.linear.parameters(), lr=0.1)
    Refusing.is_strict = RefusingSGD.is_strict = True
    losses = train(model, optimizer)
    with torch.no_grad():
        values = [model(batch(1 + at % 2)) for at in range(30)]
    Refusing.is_strict = RefusingSGD.is_strict = False
    show(losses, values, model.linear)


class OptimizedModule(nn.Module):
    """A class that has the name of one of PyTorch's."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.linear(x)


class DistributedDataParallel(OptimizedModule):
    """Another one."""


@program
def classes_named_as_wrappers() -> None:
    show(train(OptimizedModule()), train(DistributedDataParallel()))


class Static(nn.Module):
    """A module whose call is no method."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    @staticmethod
    def __call__(x: Any) -> Any:
        return x * 2


class ByClass(Static):
    """A module whose call is a method of its class."""

    @classmethod
    def __call__(cls, x: Any) -> Any:
        return cls.__name__, x * 3


class Calling(Net):
    """A module with a call of its own."""

    def __call__(self, x: Any, *more: Any) -> Any:
        return super().__call__(x + 1, *more)


@program
def calls_of_their_own() -> None:
    show([(Static()(batch()), ByClass()(batch())) for _ in range(STEPS)])
    show(train(Calling()))
    model = Calling().eval()
    show([model(batch()) for _ in range(30)])


@program
def odd_names() -> None:
    kind = type('M\u00e9 {\n"', (Block,), {})
    show(train(nn.Sequential(kind(), kind())))


class Counted(nn.Module):
    """A module that counts the reads of its attributes."""

    reads = 0

    def __getattribute__(self, name: str) -> Any:
        Counted.reads += 1
        return super().__getattribute__(name)

    def forward(self, x: Any) -> Any:
        return x


@program
def reads_are_counted() -> None:
    model = Counted()
    Counted.reads = 0
    for _ in range(30):
        model(batch())
    show(Counted.reads)


@program
def modes_that_see_functions() -> None:
    class Seeing(torch.overrides.TorchFunctionMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_function__(self, function: Any, *rest: Any) -> Any:
            self.seen.append(getattr(function, "__name__", str(function)))
            return function(*rest[1], **(rest[2] if len(rest) > 2 and rest[2] else {}))

    class Seen(torch.Tensor):
        seen: list[str] = []

        @classmethod
        def __torch_function__(cls, function: Any, *rest: Any) -> Any:
            cls.seen.append(getattr(function, "__name__", str(function)))
            return super().__torch_function__(function, *rest)

    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU())
    with Seeing() as mode:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(STEPS):
            model(torch.ones(1, 3, 2, 2)).sum().backward()
            optimizer.step()
    outside = nn.Sequential(nn.Linear(4, 4))
    for _ in range(STEPS):
        outside(batch().as_subclass(Seen))
    show(mode.seen, Seen.seen)


@program
def recursion() -> None:
    class Deep(nn.Module):
        def forward(self, x: Any, depth: int) -> Any:
            return self(x, depth - 1) if depth else x

    model, found = Deep(), 0
    for depth in range(20, 400):
        try:
            model(torch.ones(1), depth)
            found = depth
        except RecursionError:
            break
    # Nothing is left behind by the calls that failed.
    show(found, train(Net()))


# --- transformations ------------------------------------------------------------------------------


@program
def traced_graphs() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    model = nn.Sequential(nn.ReLU(), nn.Softmax(-1)).eval()
    x = torch.ones(3, 4)
    show(str(torch.fx.symbolic_trace(model).graph))
    for mode in ("real", "fake", "symbolic"):
        graph = make_fx(model, tracing_mode=mode)(x)
        show(str(graph.graph), graph(x))


@program
def exported() -> None:
    model, x = Net().eval(), torch.ones(3, 4)
    rows = torch.export.Dim("rows", min=2, max=64)
    for strict in (False, True):
        for shapes in (None, {"x": {0: rows}}):
            found = torch.export.export(model, (x,), strict=strict, dynamic_shapes=shapes)
            show(str(found.graph), str(found.range_constraints), found.module()(x))


@program
def functional_transforms() -> None:
    model = Net().eval()
    weights = dict(model.named_parameters())

    def loss(weights: Any, x: Any) -> Any:
        return torch.func.functional_call(model, weights, (x,)).square().mean()

    x = batch()
    show(torch.func.grad(loss)(weights, x), torch.func.vmap(model)(x))
    show(torch.func.jvp(model, (x,), (x,)), torch.func.jacrev(model)(x[0]))


@program
def parametrizations() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    nn.utils.parametrizations.weight_norm(model[0])
    nn.utils.parametrizations.spectral_norm(model[1])
    show(train(model))


# --- copies ---------------------------------------------------------------------------------------


@program
def copies() -> None:
    model = Net()
    show(train(model))
    for made in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.copy(model)):
        show(train(made), sorted(vars(made)))
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    show(torch.load(file, weights_only=False))
    show(pickle.dumps(nn.Module.__call__), pickle.dumps(model.__call__)[:4])
    show(nn.Module.__call__.__qualname__, nn.Module.__call__.__module__)
    show(nn.Module.__call__ is nn.Module._wrapped_call_impl, sorted(vars(Net)))


_MAIN = """
import torch
class Mine(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)
    def forward(self, x):
        return self.linear(x)
"""
_LOAD = """
import pickle, sys
model = pickle.load(open(sys.argv[1], "rb"))
import torch
print(model(torch.ones(1, 4)).shape, "dlprof_nvtx" in sys.modules)
"""


def without_dlprof() -> dict[str, str]:
    """The environment of a process that has no dlprof on its path."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


@program
def pickled_by_value() -> None:
    try:
        import cloudpickle
    except ImportError:
        print("no cloudpickle")
        return
    main = sys.modules["__main__"]
    exec(_MAIN, vars(main))
    model = main.Mine()
    with torch.no_grad():
        for _ in range(30):
            model(batch())
    for value in (model, train(model) and model, torch.optim.SGD(model.parameters())):
        data = cloudpickle.dumps(value)
        show(b"dlprof" in data)
    with tempfile.NamedTemporaryFile() as file:
        file.write(cloudpickle.dumps(model))
        file.flush()
        words = [sys.executable, "-c", _LOAD, file.name]
        done = subprocess.run(
            words, env=without_dlprof(), capture_output=True, text=True, check=False
        )
    print(done.stdout, done.stderr)


# --- data loaders ---------------------------------------------------------------------------------


class Numbers(torch.utils.data.Dataset):
    """Twelve numbers."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, at: int) -> Any:
        return torch.full((4,), float(at))


class Stream(torch.utils.data.IterableDataset):
    """Numbers without a length."""

    def __iter__(self) -> Iterator[Any]:
        for at in range(12):
            yield torch.full((4,), float(at))


def epochs(**settings: Any) -> None:
    """Train two epochs over a loader."""
    model = Net()
    if "batch_sampler" not in settings:
        settings |= {"batch_size": 2, "shuffle": True}
    loader = torch.utils.data.DataLoader(Numbers(), **settings)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for data in loader:
            optimizer.zero_grad()
            loss = model(data).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
    show(losses, model)


class Shuffled(torch.utils.data.Sampler[list[int]]):
    """Makes its batches to count them, too."""

    def __init__(self) -> None:
        pass

    def _make(self) -> list[list[int]]:
        return [rows.tolist() for rows in torch.randperm(len(Numbers())).split(2)]

    def __iter__(self) -> Iterator[list[int]]:
        yield from self._make()

    def __len__(self) -> int:
        return len(self._make())


@program
def sampler_that_counts() -> None:
    epochs(batch_sampler=Shuffled())


@program
def loaders() -> None:
    epochs()
    epochs(num_workers=1, persistent_workers=True)
    model = Net()
    show([model(data) for data in torch.utils.data.DataLoader(Stream(), batch_size=3)])
    iterator = iter(torch.utils.data.DataLoader(Numbers()))
    next(iterator)
    reference = weakref.ref(iterator)
    del iterator
    show(reference() is None)


@program
def loaders_with_spawn_and_another_path() -> None:
    os.environ["PYTHONPATH"] = "."
    for context in ("spawn", "forkserver"):
        epochs(num_workers=1, multiprocessing_context=context)
    from torch.utils.data._utils import worker

    show(pickle.dumps(worker._worker_loop))


# --- processes and threads ------------------------------------------------------------------------


def _in_child(queue: Any) -> None:
    torch.manual_seed(1)
    queue.put([float(loss) for loss in train(Net(), steps=4)])


@program
def child_processes() -> None:
    for method in ("fork", "spawn"):
        context: Any = multiprocessing.get_context(method)
        queue: Any = context.Queue()
        process = context.Process(target=_in_child, args=(queue,))
        process.start()
        show(queue.get(timeout=120))
        process.join()
        show(process.exitcode)
    words = [sys.executable, "-c", "import torch; print(torch.nn.Linear(1, 1).weight.shape)"]
    print(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    show(train(Net()))


@program
def threads() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    errors: list[str] = []
    must_end = threading.Event()

    def infer() -> None:
        at = 0
        try:
            while not must_end.is_set():
                at += 1
                kind = type(f"Of{at}", (nn.Linear,), {})
                nn.Sequential(kind(2, 2), nn.MSELoss())[0](torch.ones(1, 2))
        except Exception as error:
            errors.append(repr(error))

    # A generator of their own would be needed for equal numbers: only the errors are compared.
    running = [threading.Thread(target=infer) for _ in range(4)]
    for thread in running:
        thread.start()
    try:
        train(Net(), steps=60)
    finally:
        must_end.set()
        for thread in running:
            thread.join()
        sys.setswitchinterval(before)
    print(errors)


@program
def several_trainings_at_once() -> None:
    errors: list[str] = []

    def work() -> None:
        try:
            train(Net(), steps=20)
        except Exception as error:
            errors.append(repr(error))

    running = [threading.Thread(target=work) for _ in range(3)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print(errors)


@program
def coroutines() -> None:
    async def work(model: Any) -> list[Any]:
        losses = []
        for _ in range(4):
            losses += train(model, steps=2)
            await asyncio.sleep(0)
        return losses

    async def main() -> Any:
        return await asyncio.gather(work(Net()), work(Net()))

    show(asyncio.run(main()))


@program
def distributed() -> None:
    from torch.nn.parallel import DistributedDataParallel as Parallel

    with tempfile.TemporaryDirectory() as folder:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{folder}/store", rank=0, world_size=1
        )
        model = Parallel(Net())
        show(train(model), model)
        torch.distributed.destroy_process_group()


# --- errors ---------------------------------------------------------------------------------------


class UserError(Exception):
    """An error of the program."""


@program
def errors() -> None:
    class Failing(nn.Module):
        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error, self.linear = error, nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            x = self.linear(x)
            raise self.error

    for error in (UserError("mine"), KeyboardInterrupt(), StopIteration(1), RuntimeError("x")):
        try:
            nn.Sequential(Failing(error))(batch())
        except BaseException as found:
            show(found is error, repr(found), repr(found.__cause__), repr(found.__context__))
    show(train(Net()))

    class Interrupted(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        Interrupted.apply(Net()(batch())).sum().backward()
    show(train(Net()))


@program
def exit_codes() -> None:
    show(train(Net()))
    sys.exit(7)


@program
def uncaught() -> None:
    train(Net())
    raise UserError("not caught")


# --- patches and profilers of the program ---------------------------------------------------------


@program
def patched_calls() -> None:
    first, seen = nn.Module.__call__, []

    def theirs(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(type(self).__name__)
        return first(self, *args, **kwargs)

    nn.Module.__call__ = theirs
    show(train(Net()))
    nn.Module.__call__ = first
    show(train(Net(), steps=30), seen)
    saved = nn.Module.__call__
    show(train(Net(), steps=30))
    nn.Module.__call__ = saved
    show(train(Net(), steps=5))


@program
def profilers() -> None:
    model = Net()
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
    ) as profile:
        for _ in range(6):
            show(train(model, steps=1))
            profile.step()
    show(sorted((event.key, event.count) for event in profile.key_averages()))
    with torch.autograd.profiler.profile(), torch.autograd.profiler.record_function("mine"):
        show(train(model))


@program
def objects_are_freed() -> None:
    dead = []
    for _ in range(6):
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        train(model, optimizer, 8)
        loss = nn.MSELoss()
        loss(model(batch()), torch.ones(3, 2))
        dead += [weakref.ref(thing) for thing in (model, optimizer, loss, model.head)]
        del model, optimizer, loss
    import gc

    gc.collect()
    show([reference() is None for reference in dead])


@program
def everyday() -> None:
    """Use what the markers see, for the test in which each of their functions fails once."""
    import dlprof_nvtx

    epochs(num_workers=0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4), Net())
    optimizer = torch.optim.Adam(model.parameters())
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    for at in range(8):
        with torch.autocast("cpu", dtype=torch.bfloat16), dlprof_nvtx.phase("train", tokens=2):
            loss = model(torch.randn(2, 3, 8, 8)).float().sum()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if at == 5:
            with torch.profiler.profile(), torch.profiler.record_function("mine"):
                model(torch.randn(2, 3, 8, 8))
    with torch.no_grad(), torch.autograd.profiler.emit_nvtx(enabled=False):
        values = [model.eval()(torch.randn(1 + at % 3, 3, 8, 8)) for at in range(20)]
    torch.autograd.gradcheck(torch.sigmoid, torch.ones(1, dtype=torch.double, requires_grad=True))
    call = torch.compile(Net().eval().__call__, backend="eager")
    function = torch.compile(lambda x: x + 1, backend="eager")
    show(values, loss.detach(), [function(call(torch.ones(2, 4))) for _ in range(3)])
    sys.exit(3)


def new_losses() -> None:
    """Print by how many bytes and objects a process grows that makes a loss in each step."""
    import gc

    model = Net(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    target, page = torch.ones(3, 2), os.sysconf("SC_PAGE_SIZE")
    steps = int(os.environ["HARM_STEPS"])
    before = (0, 0)
    for at in range(steps):
        if at == steps // 10:
            gc.collect()
            before = _resident() * page, len(gc.get_objects())
        optimizer.zero_grad()
        nn.MSELoss()(model(batch()), target).backward()
        optimizer.step()
    gc.collect()
    print(_resident() * page - before[0], len(gc.get_objects()) - before[1])


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1])


OTHERS = {"new_losses": new_losses}


# --- TorchDynamo ----------------------------------------------------------------------------------


def counters() -> None:
    """Print what TorchDynamo counted and compiled."""
    from torch._dynamo import utils

    print("frames", utils.counters["frames"]["total"])
    for name in ("stats", "graph_break", "unimplemented", "recompiles"):
        found = utils.counters.get(name, {})
        is_named = name == "stats"  # Reasons name the functions around a break.
        print(name, sorted(found.items()) if is_named else sum(found.values()))
    metrics = utils.get_compilation_metrics()
    print(len(metrics), sorted(str(one.co_name) for one in metrics))


_LAYER = """
class Layer{at}(Block):
    def forward(self, x):
        return torch.relu(self.linear(self.norm(x))) + {at}
"""


class Breaking(nn.Module):
    """A model with a graph break in a loop, of layers of many classes."""

    def __init__(self) -> None:
        super().__init__()
        names = {"Block": Block, "torch": torch}
        for at in range(12):
            exec(_LAYER.format(at=at), names)
        self.layers = nn.ModuleList([names[f"Layer{at}"]() for at in range(12)])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
            torch._dynamo.graph_break()
        return x.sum()


@compiled
def break_in_a_loop() -> None:
    model = torch.compile(Breaking(), backend="eager")
    show(train(model, steps=6), model)
    counters()


@compiled
def compiled_blocks() -> None:
    model = Net(3)
    for block in model.blocks:
        block.compile(backend="eager")
    show(train(model, steps=6))
    model = Net(3)
    model.blocks[0] = torch.compile(model.blocks[0], backend="eager")
    show(train(model, steps=6))
    counters()


@compiled
def compiled_optimizer() -> None:
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    step = torch.compile(lambda: optimizer.step(), backend="eager")
    for _ in range(20):
        model(batch()).square().mean().backward()
        step()
        optimizer.zero_grad()
    show(model)
    counters()


@compiled
def compiled_train_step() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def step(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    show([step(batch()).detach() for _ in range(20)], model)
    counters()


@compiled
def compiled_with_a_compiled_method() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        @torch.compile(backend="eager")
        def forward(self, x: Any) -> Any:
            return self.two(self.one(x).relu())

    model = Model().eval()
    around = torch.compile(model, backend="eager")
    show([model(torch.ones(3, 4)).detach() for _ in range(3)])
    show([around(torch.ones(3, 4)).detach() for _ in range(3)])
    counters()


@compiled
def compiled_again() -> None:
    def function(x: Any) -> Any:
        return x.sin() + 1

    model = Net().eval()
    for target in (function, functools.partial(function), model.forward, model.__call__):
        once = torch.compile(target, backend="eager")
        twice = torch.compile(once, backend="eager")
        around = torch.compile(lambda x, once=once: once(x).cos(), backend="eager")
        for inner in (once, twice, around, torch.compiler.disable(once), copy.copy(once)):
            show([inner(torch.ones(3, 4)).detach() for _ in range(4)])
    show(train(Net(), steps=4))
    counters()


@compiled
def compiled_model() -> None:
    model = torch.compile(Net(), backend="aot_eager", fullgraph=True)
    show(train(model))
    call = torch.compile(Net().eval().__call__, backend="eager")
    show([call(torch.ones(1 + at % 2, 4)) for at in range(20)])
    function = torch.compile(lambda net, x: net(x), backend="eager")
    net = Net().eval()
    net.register_forward_hook(lambda *_: None)
    show([function(net, batch()) for _ in range(20)])
    counters()


@compiled
def compiled_with_settings() -> None:
    torch._dynamo.config.error_on_recompile = True
    loss = torch.compile(nn.functional.mse_loss, backend="eager")
    model = torch.compile(Net(), backend="eager")
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.profiler.record_function("mine"):
            value = loss(model(batch()), torch.ones(3, 2))
        value.backward()
    show(value.detach())
    counters()
