"""Markers on TensorFlow's CPU build; the only stand-in is where ranges leave the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed")

from dlprof_nvtx import domains  # noqa: E402
from dlprof_nvtx.tensorflow import ops, pairs  # noqa: E402
from dlprof_nvtx.tensorflow.estimator import NVTXHook  # noqa: E402
from dlprof_nvtx.tensorflow.keras.callbacks import NVTXCallback  # noqa: E402
from dlprof_nvtx.tensorflow.keras.layers import NVTXEnd, NVTXStart  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
INJECT = REPOSITORY / "dlprof_nvtx" / "inject"


class Recorder:
    """Ranges as NVTX would see them, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []
        self.stack: list[tuple[str, str]] = []
        self.open: dict[int, tuple[str, str]] = {}
        self.count = 0

    def push(self, text: str, domain: str) -> None:
        self.stack.append((text, domain))
        self.events.append(("push", text, domain))

    def pop(self, domain: str) -> None:
        text, opened_in = self.stack.pop()
        assert domain == opened_in
        self.events.append(("pop", text, domain))

    def start(self, text: str, domain: str) -> int:
        self.count += 1
        self.open[self.count] = (text, domain)
        self.events.append(("start", text, domain))
        return self.count

    def end(self, handle: int) -> None:
        self.events.append(("end", *self.open.pop(handle)))


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    monkeypatch.delenv("TF_DISABLE_NVTX_RANGES", raising=False)
    found = Recorder()
    domains.use(found)
    yield found
    domains.use(None)
    assert found.open == {}
    assert found.stack == []


def dense(inputs, weight):
    x, context = ops.start(
        inputs, "Dense", "Forward", grad_message="Dense grad", grad_domain_name="Gradient"
    )
    x = tf.nn.relu(tf.matmul(x, weight))
    return ops.end(x, context)


STEP = [
    ("start", "Dense", "Forward"),
    ("end", "Dense", "Forward"),
    ("start", "Dense grad", "Gradient"),
    ("end", "Dense grad", "Gradient"),
]


@pytest.mark.parametrize("compiled", [False, True])
def test_a_step_is_marked_forward_and_backward_and_its_values_stay(
    recorder: Recorder, compiled: bool
) -> None:
    weight = tf.Variable(tf.random.stateless_normal((4, 3), (1, 2)))
    x = tf.random.stateless_normal((2, 4), (3, 4))

    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(dense(x, weight))
        return loss, *tape.gradient(loss, [x, weight])

    function = tf.function(step) if compiled else step
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(tf.nn.relu(tf.matmul(x, weight)))
    expected = (loss, *tape.gradient(loss, [x, weight]))
    for _ in range(3):
        for got, wanted in zip(function(x), expected, strict=True):
            tf.debugging.assert_near(got, wanted)
    assert recorder.events == STEP * 3


def test_marks_lie_around_the_work_of_a_graph(recorder: Recorder) -> None:
    """The work between start and end notes itself at the same boundary, by its own op."""

    def note(text):
        tf.py_function(lambda: recorder.events.append(("work", text, "")), [], [])

    @tf.custom_gradient
    def work(x):
        with tf.control_dependencies([x]):
            note("forward")

        def gradient(upstream):
            with tf.control_dependencies([upstream]):
                note("backward")
            return upstream * 2.0

        return x * 2.0, gradient

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y, context = ops.start(x, "Work", "Forward", grad_domain_name="Gradient")
            y = ops.end(work(y), context)
        return tape.gradient(y, x)

    assert float(step(tf.constant(1.0))) == 2.0
    kinds = [(kind, text or "", domain) for kind, text, domain in recorder.events]
    assert kinds.index(("start", "Work", "Forward")) < kinds.index(("end", "Work", "Forward"))
    assert kinds.index(("start", "Work", "Forward")) < kinds.index(("work", "forward", ""))
    assert kinds.index(("start", "Work", "Gradient")) < kinds.index(("work", "backward", ""))
    assert [kind for kind in kinds if kind[2] == "Gradient"] == [
        ("start", "Work", "Gradient"),
        ("end", "Work", "Gradient"),
    ]


def test_ranges_need_not_nest(recorder: Recorder) -> None:
    x = tf.constant([1.0])
    a, first = ops.start(x, "A")
    b, second = ops.start(a, "B")
    ops.end(b, first)
    ops.end(b, second)
    assert [event[:2] for event in recorder.events] == [
        ("start", "A"),
        ("start", "B"),
        ("end", "A"),
        ("end", "B"),
    ]


@pytest.mark.parametrize("kind", [list, tuple])
@pytest.mark.parametrize("compiled", [False, True])
def test_lists_and_tuples_keep_their_types(recorder: Recorder, kind: type, compiled: bool) -> None:
    def run(inputs):
        inputs, context = ops.start(inputs, "Many")
        assert type(inputs) is kind
        return ops.end(inputs, context)

    given = kind([tf.constant([1.0, 2.0]), tf.constant([[3]], tf.int32)])
    found = (tf.function(run) if compiled else run)(given)
    assert [part.dtype for part in found] == [tf.float32, tf.int32]
    assert [part.numpy().tolist() for part in found] == [[1.0, 2.0], [[3]]]
    assert recorder.events == [("start", "Many", ""), ("end", "Many", "")]


@pytest.mark.parametrize("compiled", [False, True])
def test_trainable_closes_the_gradient_of_the_first_range(
    recorder: Recorder, compiled: bool
) -> None:
    weight = tf.Variable(tf.ones((4, 3)))

    @ops.trace("Net", "Forward", "Net grad", "Gradient", trainable=True)
    def net(inputs):
        return tf.matmul(inputs, weight)

    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(net(x))
        return tape.gradient(loss, [weight, *ops.trainable_variables()])

    net(tf.ones((1, 4)))
    recorder.events.clear()
    gradient, null = (tf.function(step) if compiled else step)(tf.ones((2, 4)))
    assert gradient.numpy().tolist() == [[2.0] * 3] * 4
    assert float(null) == 0.0
    assert recorder.events == [
        ("start", "Net", "Forward"),
        ("end", "Net", "Forward"),
        ("start", "Net grad", "Gradient"),
        ("end", "Net grad", "Gradient"),
    ]


def test_a_gradient_range_that_nothing_closes_ends_with_the_step_and_is_named(
    recorder: Recorder,
) -> None:
    weight = tf.Variable(tf.ones((2, 2)))
    for _ in range(3):
        with tf.GradientTape() as tape:
            x, context = ops.start(tf.ones((1, 2)), "First", grad_message="First grad")
            loss = tf.reduce_sum(ops.end(tf.matmul(x, weight), context))
        tape.gradient(loss, [weight])
        assert len(recorder.open) == 1
    assert "First grad" in pairs._names_of_unclosed()
    ops.end(*ops.start(tf.ones(1), "First", grad_message="First grad"))


def test_trace_takes_methods_keywords_and_python_conditions_in_graphs(recorder: Recorder) -> None:
    class Model:
        @ops.trace("Method")
        def run(self, inputs, scale=1.0):
            if tf.reduce_sum(inputs) > 0.0:
                return inputs * scale
            return inputs - scale

    model = Model()
    assert model.run(tf.constant(2.0), 3.0).numpy() == 6.0
    assert tf.function(model.run)(inputs=tf.constant(-2.0), scale=3.0).numpy() == -5.0
    assert model.run.__name__ == "run"
    assert recorder.events == [("start", "Method", ""), ("end", "Method", "")] * 2
    with pytest.raises(ValueError, match="first argument or named"):
        model.run()


@pytest.mark.parametrize("value", ["1", "true"])
def test_the_variable_of_nvidias_tensorflow_switches_everything_off(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("TF_DISABLE_NVTX_RANGES", value)
    x = tf.constant([1.0])
    handed_on, context = ops.start(x, "A")
    assert handed_on is x
    assert context is None
    assert ops.end(x, context) is x
    marks = NVTXCallback()
    marks.on_epoch_begin(0)
    marks.on_epoch_end(0)
    assert recorder.events == []


def test_disabled_range_is_not_written(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TF_DISABLE_NVTX_RANGES", "0")
    x = tf.constant([1.0])
    assert ops.start(x, "A", enabled=False) == (x, None)
    ops.end(*ops.start(x, "B"))
    assert recorder.events == [("start", "B", ""), ("end", "B", "")]


def keras_model():
    inputs = tf.keras.Input((4,))
    x, marker, domain = NVTXStart("Dense 1", "forward", trainable=True, name="s1")(inputs)
    x = tf.keras.layers.Dense(8, activation="relu")(x)
    x = NVTXEnd("Dense 1 grad", "backwards", name="e1")([x, marker, domain])
    x, marker, domain = NVTXStart(message="Dense 2", domain_name="forward", name="s2")(x)
    x = tf.keras.layers.Dense(1)(x)
    x = NVTXEnd(grad_message="Dense 2 grad", grad_domain_name="backwards", name="e2")(
        [x, marker, domain]
    )
    return tf.keras.Model(inputs, x)


@pytest.mark.parametrize("eager", [False, True])
def test_keras_layers_and_callback_mark_a_training(recorder: Recorder, eager: bool) -> None:
    model = keras_model()
    model.compile(optimizer="sgd", loss="mse", run_eagerly=eager)
    x, y = tf.random.stateless_normal((8, 4), (1, 1)), tf.zeros((8, 1))
    model.fit(x, y, batch_size=4, epochs=2, verbose=0, callbacks=[NVTXCallback()])
    texts = [event[:2] for event in recorder.events]
    # Building runs eagerly once without a gradient: only what lies in the training counts.
    texts = texts[texts.index(("push", "Train")) :]
    batch = [
        ("start", "Dense 1"),
        ("end", "Dense 1"),
        ("start", "Dense 2"),
        ("end", "Dense 2"),
        ("start", "Dense 2 grad"),
        ("end", "Dense 2 grad"),
        ("start", "Dense 1 grad"),
        ("end", "Dense 1 grad"),
    ]
    expected = [("push", "Train")]
    for epoch in range(2):
        expected.append(("push", f"epoch {epoch}"))
        for number in range(2):
            expected += [("push", f"batch {number}"), *batch, ("pop", f"batch {number}")]
        expected.append(("pop", f"epoch {epoch}"))
    assert texts == [*expected, ("pop", "Train")]
    assert ("start", "Dense 1 grad", "backwards") in recorder.events
    assert float(model.get_layer("s1").null_input.numpy()) == 0.0
    recorder.events.clear()
    model.predict(x, verbose=0, callbacks=[NVTXCallback()])
    model.evaluate(x, y, verbose=0, callbacks=[NVTXCallback()])
    pushed = [text for kind, text, _ in recorder.events if kind == "push"]
    assert pushed == ["Predict", "batch 0", "Test", "batch 0"]


def test_a_model_with_the_layers_can_be_saved_and_loaded(
    recorder: Recorder, tmp_path: Path
) -> None:
    model = keras_model()
    model.save(tmp_path / "model.keras")
    known = {"NVTXStart": NVTXStart, "NVTXEnd": NVTXEnd}
    again = tf.keras.models.load_model(tmp_path / "model.keras", custom_objects=known)
    x = tf.random.stateless_normal((2, 4), (1, 1))
    tf.debugging.assert_near(model(x), again(x))
    layer = again.get_layer("s1")
    assert (layer.message, layer.domain_name, layer.trainable) == ("Dense 1", "forward", True)


def test_a_session_of_tensorflow_1_is_marked(recorder: Recorder) -> None:
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, (None, 4))
        y, context = ops.start(
            x, "Dense", "Forward", "Dense grad", "Gradient", trainable=True, name="first"
        )
        weight = tf.compat.v1.get_variable("weight", (4, 1))
        y = ops.end(tf.matmul(y, weight), context)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.1)
        train = optimizer.minimize(tf.reduce_mean(y))
        hook = NVTXHook(skip_n_steps=1, name="Session")
        with tf.compat.v1.train.MonitoredSession(hooks=[hook]) as session:
            for _ in range(3):
                session.run(train, {x: [[1.0] * 4]})
    assert recorder.events == [
        ("push", "Session", ""),
        *STEP,
        ("push", "step 1", ""),
        *STEP,
        ("pop", "step 1", ""),
        ("push", "step 2", ""),
        *STEP,
        ("pop", "step 2", ""),
        ("pop", "Session", ""),
    ]


# --- injected at interpreter start -------------------------------------------------------------

SCRIPT = """
import tensorflow as tf
import nvtx.plugins.tf as nvtx_tf
from nvtx.plugins.tf.estimator import NVTXHook
from nvtx.plugins.tf.keras.callbacks import NVTXCallback
from nvtx.plugins.tf.keras.layers import NVTXEnd, NVTXStart
import nvtx, sys

@nvtx_tf.ops.trace(message="Block", domain_name="Forward", grad_domain_name="Gradient")
def block(inputs):
    return inputs * 2.0

print(block(tf.constant(2.0)).numpy(), hasattr(nvtx, "annotate"), "torch" in sys.modules)
"""


@pytest.mark.parametrize("enable", ["1", "plugins"])
def test_a_script_written_for_nvtx_plugins_runs_unchanged_under_dlprof(enable: str) -> None:
    pytest.importorskip("nvtx", reason="the package nvtx is not installed")
    environment = {**os.environ, "PYTHONPATH": str(INJECT), "DLPROF_NVTX": enable}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["4.0", "True", "False"], done.stderr[-2000:]
