"""Makes the folders beside it: models of one node of operators that the tests of onnx do not have, with what onnxruntime
makes of random inputs. python tests-data/onnx/make.py (with onnx and onnxruntime installed)."""

import pathlib
import shutil

import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(0)
count = {}


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def bytes_(*shape):
    return random.integers(0, 256, shape).astype(np.uint8)


def signed(*shape):
    return random.integers(-128, 128, shape).astype(np.int8)


def case(op, inputs, outputs=1, domain="com.microsoft", fed=None, versions={}, **attributes):
    """A folder for one call; an input that is left out is None. Inputs behind the first `fed` are stored in the model, as
    onnxruntime wants weights that it prepares."""
    count[op] = count.get(op, 0) + 1
    folder = HERE / f"{op}_{count[op]}"
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    inputs = [None if v is None else np.asarray(v) for v in inputs]
    names = ["" if v is None else f"i{k}" for k, v in enumerate(inputs)]
    stored = [(n, v) for n, v in zip(names, inputs) if v is not None]
    given = [stored.pop(0) for _ in range(len(stored) if fed is None else fed)]
    ports = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given]
    outs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(outputs)]
    node = helper.make_node(op, names, [o.name for o in outs], domain=domain, **attributes)
    versions = {"": 17, "com.microsoft": 1, "ai.onnx.ml": 3, **versions}.items()
    graph = helper.make_graph([node], op, ports, outs, initializer=[numpy_helper.from_array(v, n) for n, v in stored])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*v) for v in versions], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    for k, (_, v) in enumerate(given):
        (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(v).SerializeToString())
    for k, v in enumerate(session.run(None, dict(given))):
        (data / f"output_{k}.pb").write_bytes(numpy_helper.from_array(v).SerializeToString())


def fused():
    case("BiasGelu", [floats(2, 3, 8), floats(8)])
    case("FastGelu", [floats(2, 8), floats(8)])
    case("FastGelu", [floats(2, 8)])
    case("Gelu", [floats(2, 8)])
    case("QuickGelu", [floats(2, 8)])
    case("FusedMatMul", [floats(2, 4, 3), floats(2, 4, 5)], alpha=0.5, transA=1)
    case("FusedMatMul", [floats(4, 3), floats(5, 3)], transB=1)
    case("SkipLayerNormalization", [floats(1, 3, 8), floats(1, 3, 8), floats(8), floats(8), floats(8)], epsilon=1e-5)
    case("SkipSimplifiedLayerNormalization", [floats(1, 3, 8), floats(1, 3, 8), floats(8)], epsilon=1e-5)
    case("SimplifiedLayerNormalization", [floats(1, 3, 8), floats(8)], domain="", epsilon=1e-5)
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    case("FusedConv", [floats(1, 3, 8, 8), floats(4, 3, 3, 3), floats(4)], activation="Relu", **window)


def quantised():
    one = lambda v, d=np.float32: np.array([v], d)  # noqa: E731
    case("DynamicQuantizeMatMul", [floats(3, 8), signed(8, 5), one(0.02), one(0, np.int8), floats(5)])
    scales = [one(0.1), one(0.02), one(5, np.uint8), one(0, np.int8)]
    case("MatMulIntegerToFloat", [bytes_(3, 8), signed(8, 5), *scales, floats(5)])
    pair = lambda scale, zero: [np.float32(scale), np.uint8(zero)]  # noqa: E731
    for op in ("QLinearAdd", "QLinearMul"):
        case(op, [bytes_(2, 8), *pair(0.1, 3), bytes_(2, 8), *pair(0.05, 7), *pair(0.19, 9)])
    case("QLinearConcat", [*pair(0.1, 4), bytes_(2, 3), *pair(0.2, 1), bytes_(2, 4), *pair(0.05, 9)], axis=1)
    case("QLinearGlobalAveragePool", [bytes_(1, 3, 4, 4), *pair(0.1, 3), *pair(0.05, 4)], channels_last=0)
    case("QLinearLeakyRelu", [bytes_(2, 8), *pair(0.05, 128), *pair(0.05, 100)], alpha=0.1)
    case("QLinearSigmoid", [bytes_(2, 8), *pair(0.05, 128), *pair(1 / 256, 0)])
    for bits, block, k, n in ((4, 32, 64, 8), (4, 16, 40, 6), (8, 32, 64, 8)):
        blocks = -(-k // block)
        rows, scales = bytes_(n, blocks, block * bits // 8), np.abs(floats(n * blocks)) * np.float32(0.02)
        case("MatMulNBits", [floats(3, k), rows, scales], K=k, N=n, bits=bits, block_size=block)
        if bits == 4:
            zeros = bytes_(n * ((blocks + 1) // 2))
            case("MatMulNBits", [floats(3, k), rows, scales, zeros], K=k, N=n, bits=bits, block_size=block)


def attention():
    q, kv = floats(2, 4, 16), lambda n: floats(2, n, 16)
    case("MultiHeadAttention", [q, kv(6), kv(6)], num_heads=4)
    case("MultiHeadAttention", [q, kv(4), kv(4), floats(48)], num_heads=4)
    case("MultiHeadAttention", [q, kv(6), kv(6), None, None, floats(2, 4, 4, 6)], num_heads=4)
    mask = np.array([[1, 1, 1, 0], [1, 1, 1, 1]], np.int32)
    case("MultiHeadAttention", [q, kv(4), kv(4), None, mask], num_heads=4)
    case("MultiHeadAttention", [q, kv(4), kv(4)], num_heads=4, unidirectional=1)
    step = [floats(1, 1, 16) for _ in range(3)]
    case("MultiHeadAttention", [*step, None, None, None, floats(1, 4, 3, 4), floats(1, 4, 3, 4)], outputs=3, num_heads=4)
    angles = np.arange(32)[:, None] * np.linspace(0.1, 1, 8)
    turn = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    at = np.array([[0, 1, 2], [3, 4, 5]], np.int64)
    case("RotaryEmbedding", [floats(2, 3, 32), at, *turn])
    case("RotaryEmbedding", [floats(2, 3, 32), np.array([2], np.int64), *turn], interleaved=1)
    case("RotaryEmbedding", [floats(2, 2, 3, 16), at, *turn])
    group = {"outputs": 3, "num_heads": 4, "kv_num_heads": 2}
    none = [np.zeros((1, 2, 0, 16), np.float32)] * 2
    prompt = [floats(1, 3, 64), floats(1, 3, 32), floats(1, 3, 32), *none, np.array([2], np.int32), np.array(3, np.int32)]
    case("GroupQueryAttention", prompt, **group)
    case("GroupQueryAttention", [*prompt, *turn], do_rotary=1, **group)
    past = [floats(1, 2, 4, 16), floats(1, 2, 4, 16), np.array([4], np.int32), np.array(5, np.int32)]
    token = [floats(1, 1, 64), floats(1, 1, 32), floats(1, 1, 32), *past, *turn]
    case("GroupQueryAttention", token, do_rotary=1, rotary_interleaved=1, **group)


def classic():
    ml = {"domain": "ai.onnx.ml"}
    case("Scaler", [floats(2, 3)], offset=[0.5, 1.0, -1.0], scale=[2.0, 3.0, 0.5], **ml)
    for norm in ("MAX", "L1", "L2"):
        case("Normalizer", [np.abs(floats(2, 3))], norm=norm, **ml)
    case("LinearRegressor", [floats(2, 3)], coefficients=[0.5, 1.0, -1.0, 2, 3, 4], intercepts=[0.1, 0.2], targets=2, **ml)
    holes = floats(2, 3)
    holes[0, 1] = np.nan
    case("Imputer", [holes], imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=float("nan"), **ml)
    case("OneHotEncoder", [np.array([1, 3, 9], np.int64)], cats_int64s=[1, 2, 3], zeros=1, **ml)
    case("FeatureVectorizer", [floats(2, 3), floats(2, 2)], inputdimensions=[3, 2], **ml)


def packed():
    group = {"outputs": 3, "num_heads": 4, "kv_num_heads": 2}
    none = [np.zeros((1, 2, 0, 16), np.float32)] * 2
    lengths = [np.array([5], np.int32), np.array(6, np.int32)]
    case("GroupQueryAttention", [floats(1, 6, 128), None, None, *none, *lengths], **group)
    prompt = [floats(1, 6, 64), floats(1, 6, 32), floats(1, 6, 32), *none, *lengths]
    case("GroupQueryAttention", prompt, local_window_size=3, **group)
    case("GroupQueryAttention", prompt, softcap=0.5, **group)
    past = [floats(1, 2, 5, 16), floats(1, 2, 5, 16), np.array([5], np.int32), np.array(6, np.int32)]
    token = [floats(1, 1, 64), floats(1, 1, 32), floats(1, 1, 32), *past]
    case("GroupQueryAttention", token, local_window_size=2, softcap=1.0, **group)
    pair = lambda scale, zero: [np.float32(scale), np.uint8(zero)]  # noqa: E731
    window = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    case("QLinearAveragePool", [bytes_(1, 3, 6, 5), *pair(0.1, 3), *pair(0.05, 4)], count_include_pad=1, **window)
    case("QLinearAveragePool", [bytes_(1, 6, 5, 3), *pair(0.1, 3), *pair(0.07, 4)], channels_last=1, **window)
    case("QLinearSoftmax", [bytes_(2, 8), *pair(0.05, 128), *pair(1 / 256, 0)], axis=-1, opset=13)
    cases = [np.array([[True, False, True]]), bytes_(2, 3), *pair(0.1, 3), bytes_(2, 3), *pair(0.2, 7), *pair(0.15, 1)]
    case("QLinearWhere", cases)


def classifiers():
    ml = {"domain": "ai.onnx.ml"}
    x = floats(5, 3)
    plane, planes = [0.5, -1.0, 0.7], [0.5, -1.0, 0.7, 0.1, 0.4, -0.3, 1.0, 0.0, -0.8]
    ints = {"classlabels_ints": [4, 7], "outputs": 2, **ml}
    for after in ("NONE", "LOGISTIC", "SOFTMAX"):
        case("LinearClassifier", [x], coefficients=plane, intercepts=[0.1], post_transform=after, **ints)
    texts = {"classlabels_strings": ["a", "b", "c"], "outputs": 2, **ml}
    for after in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        case("LinearClassifier", [x], coefficients=planes, intercepts=[0.1, 0.2, 0.3], post_transform=after, **texts)
    case("LinearRegressor", [x], coefficients=planes, intercepts=[0.1, 0.2, 0.3], targets=3, post_transform="SOFTMAX", **ml)
    vectors = floats(4, 3).ravel().tolist()
    weights, pairs = floats(2 * 4).ravel().tolist(), {"prob_a": [-1.0, -2.0, 0.5], "prob_b": [0.1, 0.0, 0.2]}
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        how = {"kernel_type": kernel, "kernel_params": [0.3, 0.1, 3.0], **ml}
        machine = {"support_vectors": vectors, **how}
        case("SVMRegressor", [x], coefficients=weights[:4], n_supports=4, rho=[0.2], **machine)
        three = {"coefficients": weights, "vectors_per_class": [2, 1, 1], "rho": [0.1, 0.2, -0.3], "outputs": 2, **machine}
        case("SVMClassifier", [x], classlabels_ints=[3, 5, 9], **three)
        case("SVMClassifier", [x], classlabels_ints=[3, 5, 9], **pairs, **three)
    machine |= {"kernel_type": "RBF"}
    case("SVMRegressor", [x], coefficients=weights[:4], n_supports=4, rho=[0.2], one_class=1, **machine)
    case("SVMRegressor", [x], coefficients=plane, n_supports=0, rho=[0.2], **{**how, "kernel_type": "LINEAR"})
    for after in ("NONE", "LOGISTIC", "SOFTMAX"):
        two = {"coefficients": weights[:4], "vectors_per_class": [2, 2], "rho": [0.1], "post_transform": after, **machine}
        case("SVMClassifier", [x], **two, **{k: v for k, v in ints.items() if k != "domain"})
        case("SVMClassifier", [x], prob_a=[-1.0], prob_b=[0.1], **two, **{k: v for k, v in ints.items() if k != "domain"})
    case("SVMClassifier", [x], coefficients=planes, rho=[0.1], **{**how, "kernel_type": "LINEAR"}, classlabels_ints=[1, 2, 3], outputs=2)


def trees():
    ml = {"domain": "ai.onnx.ml"}
    x = floats(7, 2)
    x[0, 0] = np.nan
    stump = {
        "nodes_treeids": [0, 0, 0, 0, 0, 1, 1, 1],
        "nodes_nodeids": [0, 1, 2, 3, 4, 0, 1, 2],
        "nodes_featureids": [0, 0, 1, 0, 0, 1, 0, 0],
        "nodes_values": [0.1, 0.0, -0.2, 0.0, 0.0, 0.3, 0.0, 0.0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "BRANCH_GT", "LEAF", "LEAF", "BRANCH_LT", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 3, 0, 0, 1, 0, 0],
        "nodes_falsenodeids": [2, 0, 4, 0, 0, 2, 0, 0],
        "nodes_missing_value_tracks_true": [1, 0, 0, 0, 0, 0, 0, 0],
        **ml,
    }
    leaves = {"treeids": [0, 0, 0, 1, 1], "nodeids": [1, 3, 4, 1, 2]}
    targets = {f"target_{k}": v for k, v in leaves.items()} | {"target_weights": [1.0, -2.0, 0.5, 3.0, 0.25]}
    for how in ("SUM", "AVERAGE", "MIN", "MAX"):
        case("TreeEnsembleRegressor", [x], target_ids=[0] * 5, n_targets=1, aggregate_function=how, base_values=[0.5], **targets, **stump)
    case("TreeEnsembleRegressor", [x], target_ids=[0, 1, 0, 1, 1], n_targets=2, post_transform="LOGISTIC", **targets, **stump)
    classes = {f"class_{k}": v for k, v in leaves.items()} | {"outputs": 2}
    for weights in ([0.1, 0.9, 0.3, 0.2, 0.4], [-0.1, 0.9, 0.3, 0.2, -0.4]):
        for after in ("NONE", "LOGISTIC", "SOFTMAX"):
            two = {"class_ids": [0] * 5, "class_weights": weights, "classlabels_int64s": [0, 1], "post_transform": after}
            case("TreeEnsembleClassifier", [x], **two, **classes, **stump)
        case("TreeEnsembleClassifier", [x], base_values=[0.2], **two, **classes, **stump)
        three = {"class_ids": [0, 1, 2, 1, 2], "class_weights": weights, "classlabels_strings": ["a", "b", "c"]}
        for after in ("NONE", "SOFTMAX", "SOFTMAX_ZERO"):
            case("TreeEnsembleClassifier", [x], base_values=[0.1, 0.2, 0.3], post_transform=after, **three, **classes, **stump)


def encoders():
    x, w, b = floats(2, 4, 12), floats(12, 36), floats(36)
    case("Attention", [x, w, b], num_heads=3)
    case("Attention", [x, w, b], num_heads=3, unidirectional=1)
    case("Attention", [x, w, b, np.array([2, 4], np.int32)], num_heads=3)
    case("Attention", [x, w, b, np.array([[1, 1, 0, 1], [1, 0, 1, 1]], np.int32)], num_heads=3, scale=0.3)
    case("Attention", [x, w, b, None, None, floats(2, 3, 4, 4)], num_heads=3)
    case("Attention", [x, floats(12, 40), floats(40)], num_heads=4, qkv_hidden_sizes=[12, 12, 16])
    case("Attention", [x, w, b, None, floats(2, 2, 3, 5, 4)], outputs=2, num_heads=3, unidirectional=1)
    ids, parts = random.integers(0, 9, (2, 4)).astype(np.int32), np.array([[0, 0, 1, 1]] * 2, np.int32)
    tables = [floats(9, 8), floats(6, 8), floats(2, 8), floats(8), floats(8)]
    mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    case("EmbedLayerNormalization", [ids, parts, *tables, mask], outputs=2, epsilon=1e-5)
    case("EmbedLayerNormalization", [ids, None, *tables[:2], None, *tables[3:]], outputs=2)
    at = np.array([[3, 2, 1, 0]] * 2, np.int32)
    case("EmbedLayerNormalization", [ids, parts, *tables, mask, at], outputs=3)
    boxes = np.array([[0, 0, 0, 4, 4], [1, 1.6, 2.4, 7, 9], [0, 3, 3, 3, 3], [1, 5, 1, 2, 8]], np.float32)
    for shape, scale in (((2, 3), 1.0), ((1, 1), 0.5), ((7, 7), 1.0)):
        case("MaxRoiPool", [floats(2, 3, 8, 9), boxes], domain="", pooled_shape=shape, spatial_scale=scale)


def integer_products():
    """MatMulNBits whose vectors are rounded to bytes, block by block, where accuracy level 4 is asked for; sizes for which
    onnxruntime has such a product."""
    shapes = [(4, 16, 40, 6), (4, 32, 64, 8), (4, 32, 96, 9), (4, 64, 100, 8), (4, 128, 256, 7), (4, 256, 300, 5)]
    shapes += [(8, 16, 33, 6), (8, 32, 64, 8), (8, 64, 200, 5), (8, 256, 256, 3), (2, 32, 64, 8), (2, 64, 150, 5), (2, 128, 128, 4)]
    for bits, block, k, n in shapes:
        blocks = -(-k // block)
        rows, scales = bytes_(n, blocks, block * bits // 8), np.abs(floats(n, blocks)) * np.float32(0.02)
        how = dict(K=k, N=n, bits=bits, block_size=block, accuracy_level=4)
        case("MatMulNBits", [floats(2, 3, k), rows, scales], fed=1, **how)
        zeros = bytes_(n, -(-blocks * bits // 8))
        case("MatMulNBits", [floats(1, k), rows, scales, zeros, None, floats(n)], fed=1, **how)
    # columns of any block, which level 4 leaves as it is; onnxruntime does not look at zero points then
    k, n = 64, 6
    rows, scales = bytes_(n, 4, 8), np.abs(floats(n, 4)) * np.float32(0.02)
    groups = random.integers(0, 4, k).astype(np.int32)
    for level in (0, 4):
        how = dict(K=k, N=n, bits=4, block_size=16, accuracy_level=level)
        case("MatMulNBits", [floats(3, k), rows, scales, None, groups], fed=1, **how)


def caches():
    """Scores that are changed, and samples of a batch that have keys of their own number."""
    group = {"outputs": 3, "num_heads": 4, "kv_num_heads": 2}
    none = [np.zeros((1, 2, 0, 16), np.float32)] * 2
    prompt = [floats(1, 3, 64), floats(1, 3, 32), floats(1, 3, 32), *none, np.array([2], np.int32), np.array(3, np.int32)]
    case("GroupQueryAttention", prompt, smooth_softmax=1, **group)
    case("GroupQueryAttention", [*prompt, None, None, None, floats(1, 1, 3, 3)], softcap=0.7, **group)
    case("GroupQueryAttention", [*prompt, None, None, None, None, floats(4)], **group)
    angles = np.arange(32)[:, None] * np.linspace(0.1, 1, 8)
    turn = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    # of a prompt onnxruntime looks at the first place only
    case("GroupQueryAttention", [*prompt, *turn, np.array([[5, 6, 7]])], do_rotary=1, **group)
    new = lambda n: [floats(2, n, 64), floats(2, n, 32), floats(2, n, 32)]  # noqa: E731
    for buffer in (4, 8):
        past = [floats(2, 2, buffer, 16), floats(2, 2, buffer, 16), np.array([4, 2], np.int32), np.array(5, np.int32)]
        case("GroupQueryAttention", [*new(1), *past, *turn], do_rotary=1, **group)
    none = [np.zeros((2, 2, 0, 16), np.float32)] * 2
    case("GroupQueryAttention", [*new(3), *none, np.array([2, 2], np.int32), np.array(3, np.int32)], **group)
    past = [floats(2, 2, 4, 16), floats(2, 2, 4, 16), np.array([4, 3], np.int32), np.array(5, np.int32)]
    case("GroupQueryAttention", [*new(1), *past, *turn, np.array([[2], [9]])], do_rotary=1, **group)
    q, kv = floats(2, 4, 16), floats(2, 4, 16)
    case("MultiHeadAttention", [q, kv, kv, None, np.array([3, 4], np.int32)], num_heads=4)
    case("MultiHeadAttention", [q, kv, kv, None, random.integers(0, 2, (2, 4, 4)).astype(np.int32)], num_heads=4)
    case("FusedMatMul", [floats(3, 2, 4), floats(2, 4, 5)], transBatchA=1)
    case("FusedMatMul", [floats(4, 2, 3), floats(4, 2, 5)], transBatchA=1, transBatchB=1, transA=1)
    one = lambda v, d=np.uint8: np.array(v, d)  # noqa: E731
    pair = [one(0.1, np.float32), one(5)]
    columns = [np.array([0.02, 0.01, 0.03, 0.02, 0.05], np.float32), signed(5)]
    add = random.integers(-500, 500, 5).astype(np.int32)
    case("QGemm", [bytes_(3, 8), *pair, bytes_(8, 5), *pair, add, one(2.0, np.float32), one(7)], alpha=0.5)
    case("QGemm", [bytes_(3, 8), *pair, signed(5, 8), one(0.02, np.float32), one(3, np.int8)], transB=1)
    case("QGemm", [bytes_(3, 8), *pair, signed(8, 5), *columns, add])
    case("LayerNormalization", [floats(2, 3, 4), floats(3, 4), floats(3, 4)], domain="", versions={"": 14}, axis=1)
    ml = {"domain": "ai.onnx.ml", "versions": {"ai.onnx.ml": 1}}
    case("LabelEncoder", [np.array([2, 0, 9])], classes_strings=["a", "b", "c"], default_string="?", **ml)
    stats = [np.abs(floats(2, 3, 4)) + np.float32(0.1) for _ in range(4)]
    case("BatchNormalization", [floats(3, 2, 3, 4), *stats], domain="", versions={"": 7}, spatial=0)


def recurrences():
    """Activations take the next of the parameters that they have; weights may be of bytes."""
    weights = [floats(1, 8, 3), floats(1, 8, 2)]
    how = {"domain": "", "outputs": 2, "hidden_size": 2}
    gates = ["Sigmoid", "LeakyRelu", "HardSigmoid"]
    case("LSTM", [floats(4, 2, 3), *weights], activations=gates, activation_alpha=[0.3, 0.4], activation_beta=[0.6], **how)
    case("LSTM", [floats(0, 2, 3), *weights], **how)
    scales = lambda *shape: np.abs(floats(*shape)) * np.float32(0.01)  # noqa: E731
    for each, direction in (((1,), "forward"), ((2, 8), "bidirectional")):
        d = each[0]
        zeros = np.zeros(each, np.int8)
        weights = [signed(d, 3, 8), signed(d, 2, 8), floats(d, 16)]
        whole = [floats(4, 2, 3), *weights, None, None, None, None, scales(*each), zeros, scales(*each), zeros]
        byte = {"hidden_size": 2, "outputs": 3, "direction": direction, "fed": 1}
        case("DynamicQuantizeLSTM", whole, **byte)
    weights = [floats(2, 6, 3), floats(2, 6, 2)]
    gates = ["HardSigmoid", "Affine", "Sigmoid", "Elu"]
    both = {"direction": "bidirectional", "activation_alpha": [0.3, 0.5, 0.7], "activation_beta": [0.4, 0.1]}
    case("GRU", [floats(4, 2, 3), *weights], activations=gates, **both, **how)


def statistics():
    for op in ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization"):
        case(op, [floats(1, 3, 8), floats(1, 3, 8), floats(8), floats(8)], outputs=4, epsilon=1e-5)


def padded():
    """A prompt whose samples are of different lengths."""
    new = [floats(2, 3, 64), floats(2, 3, 32), floats(2, 3, 32), *[np.zeros((2, 2, 0, 16), np.float32)] * 2]
    lengths = [np.array([2, 1], np.int32), np.array(3, np.int32)]
    angles = np.arange(32)[:, None] * np.linspace(0.1, 1, 8)
    turn = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    group = {"outputs": 3, "num_heads": 4, "kv_num_heads": 2}
    case("GroupQueryAttention", [*new, *lengths], **group)
    case("GroupQueryAttention", [*new, *lengths, *turn], do_rotary=1, **group)


if __name__ == "__main__":
    fused()
    quantised()
    attention()
    classic()
    classifiers()
    trees()
    encoders()
    packed()
    integer_products()
    caches()
    recurrences()
    statistics()
    padded()
    print(f"{sum(count.values())} models")
