"""ONNX models from Python; models are made with the onnx package."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402

from frit.onnx import Session  # noqa: E402


def model(nodes, inputs, outputs, opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def floats(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def test_outputs_by_name_and_all(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
    m = model(nodes, [floats("x", "n", 2)], [floats("y", "n", 2), floats("z", "n", 2)])
    path = tmp_path / "m.onnx"
    onnx.save(m, path)
    session = Session(path)
    assert [(p.name, p.type, p.shape) for p in session.inputs] == [("x", "float", ["n", 2])]
    x = np.array([[-1.0, 2.0]], dtype=np.float32)
    for _ in range(4):  # plain, recorded, replayed
        y, z = session.run(None, {"x": x})
        assert (y == np.maximum(x, 0)).all() and (z == -x).all()
    (z,) = session.run(["z"], {"x": x})
    assert (z == -x).all()
    with pytest.raises(ValueError, match="no output 'w', the model has y, z"):
        session.run(["w"], {"x": x})


def test_tensors_go_in_and_out_without_numpy():
    from frit import Tensor
    from frit.nn.onnx import OnnxRunner

    m = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", 2)], [floats("y", 2)])
    out = OnnxRunner(m)({"x": Tensor([-1.0, 2.0])})
    assert isinstance(out["y"], Tensor) and out["y"].tolist() == [0.0, 2.0]


def test_shapes_that_change_and_sizes_that_follow_from_them():
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Slice", ["s", "one", "two"], ["n"]),
        helper.make_node("Mul", ["n", "two"], ["m"]),
        helper.make_node("Concat", ["minus", "m"], ["d"], axis=0),
        helper.make_node("Reshape", ["x", "d"], ["y"]),
    ]
    m = model(nodes, [floats("x", "a", "b")], [floats("y", "c", "d")])
    for name, v in [("one", 1), ("two", 2), ("minus", -1)]:
        m.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [1], [v]))
    session = Session(m)
    for shape in [(4, 3), (4, 3), (4, 3), (2, 5), (4, 3)]:
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        (y,) = session.run(None, {"x": x})
        assert (y == x.reshape(-1, 2 * shape[1])).all()


def test_sizes_may_be_numbers_from_the_beginning():
    m = model([helper.make_node("Relu", ["x"], ["y"])], [floats("x", "n", 3)], [floats("y", "n", 3)])
    bound = Session(m, bind={"n": 2})
    assert bound.inputs[0].shape == [2, 3] and bound.outputs[0].shape == [2, 3]
    assert bound.run(None, {"x": np.ones((2, 3), np.float32)})[0].shape == (2, 3)
    with pytest.raises(RuntimeError, match=r"is \[2, 3\], not \[4, 3\]"):
        bound.run(None, {"x": np.ones((4, 3), np.float32)})
    with pytest.raises(RuntimeError, match='no size "m", the inputs have n'):
        Session(m, bind={"m": 2})


def test_data_that_decides_a_size():
    places = helper.make_tensor_value_info("y", TensorProto.INT64, [1, "k"])
    m = model([helper.make_node("NonZero", ["x"], ["y"])], [floats("x", "n")], [places])
    session = Session(m)
    for x in ([1, 0, 2], [0, 0, 3], [1, 1, 1], [0, 0, 0]):
        (y,) = session.run(None, {"x": np.array(x, dtype=np.float32)})
        assert y.tolist() == [np.nonzero(x)[0].tolist()]


def test_texts_sequences_and_narrow_types():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    text = helper.make_tensor_value_info("x", TensorProto.STRING, ["n"])
    m = model([helper.make_node("StringConcat", ["x", "x"], ["y"])], [text], [text], opset=20)
    m.graph.output[0].name = "y"
    (y,) = Session(m).run(None, {"x": np.array(["a", "b"], dtype=object)})
    assert y.tolist() == ["aa", "bb"]
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.INT4)
    m = model([cast], [floats("x", 3)], [helper.make_tensor_value_info("y", TensorProto.INT4, [3])], opset=21)
    (y,) = Session(m).run(None, {"x": np.array([1, -8, 7], dtype=np.float32)})
    assert y.dtype == ml_dtypes.int4 and y.astype(int).tolist() == [1, -8, 7]


def test_another_shape_than_declared_is_a_warning():
    import warnings

    m = model([helper.make_node("Relu", ["x"], ["y"], name="n1")], [floats("x", "n", 3)], [floats("y", 2, 3)])
    session = Session(m)
    session.run(None, {"x": np.ones((2, 3), np.float32)})
    with pytest.warns(RuntimeWarning, match=r'Relu "n1": "y" has the shape \[\?, 3\], the model declares \[2, 3\]'):
        assert session.run(None, {"x": np.ones((4, 3), np.float32)})[0].shape == (4, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        session.run(None, {"x": np.ones((5, 3), np.float32)})


def test_errors_name_the_node():
    m = model([helper.make_node("Nothing", ["x"], ["y"], name="n1")], [floats("x", 1)], [floats("y", 1)])
    with pytest.raises(RuntimeError, match=r"1 operators are not supported: Nothing \(n1\)"):
        Session(m)
    node = helper.make_node("MatMul", ["x", "x"], ["y"], name="the product")
    with pytest.raises(RuntimeError, match='in MatMul "the product"'):
        Session(model([node], [floats("x", 2, 3)], [floats("y", 2, 3)])).run(None, {"x": np.ones((2, 3), np.float32)})


def test_maps_are_dicts():
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[3, 5])
    graph = helper.make_graph([node], "g", [floats("x", 2, 2)], [helper.make_empty_tensor_value_info("y")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    (rows,) = Session(helper.make_model(graph, opset_imports=imports)).run(None, {"x": np.eye(2, dtype=np.float32)})
    assert rows == [{3: 1.0, 5: 0.0}, {3: 0.0, 5: 1.0}]


def test_maps_go_in():
    number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    port = helper.make_value_info("x", helper.make_map_type_proto(TensorProto.STRING, number))
    node = helper.make_node("DictVectorizer", ["x"], ["y"], domain="ai.onnx.ml", string_vocabulary=["c", "b", "a"])
    graph = helper.make_graph([node], "g", [port], [floats("y", 1, 3)])
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    session = Session(helper.make_model(graph, opset_imports=versions, ir_version=8))
    [y] = session.run(None, {"x": {"a": np.float32(1.5), "c": np.float32(2)}})
    assert y.tolist() == [[2.0, 0.0, 1.5]]


def test_a_session_runs_in_several_threads():
    # without the interpreter's lock, each run with numbers and a size of its own
    import concurrent.futures

    nodes = [helper.make_node("MatMul", ["x", "w"], ["z"]), helper.make_node("ReduceSum", ["z"], ["y"], keepdims=0)]
    session = Session(model(nodes, [floats("x", "n", 8), floats("w", 8, 8)], [floats("y")]))
    weights = np.eye(8, dtype=np.float32) * 2

    def run(k):
        x = np.full((1 + k % 7, 8), k, np.float32)
        return float(session.run(None, {"x": x, "w": weights})[0])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(200))) == [2.0 * k * 8 * (1 + k % 7) for k in range(200)]


def test_a_loop_without_end_can_be_interrupted():
    import os
    import signal
    import threading

    flag = lambda name: helper.make_tensor_value_info(name, TensorProto.BOOL, [])  # noqa: E731
    nodes = [helper.make_node("Identity", ["go"], ["again"]), helper.make_node("Neg", ["v"], ["w"])]
    inputs = [helper.make_tensor_value_info("i", TensorProto.INT64, []), flag("go"), floats("v", 2)]
    body = helper.make_graph(nodes, "body", inputs, [flag("again"), floats("w", 2)])
    session = Session(model([helper.make_node("Loop", ["", "", "x"], ["y"], body=body)], [floats("x", 2)], [floats("y", 2)]))
    timer = threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        session.run(None, {"x": np.zeros(2, np.float32)})
    timer.join()
