"""Makes the folders beside it: models of one node of operators that the tests of onnx do not have, with what onnxruntime
makes of random inputs. python tests-data/onnx/make.py (with onnx and onnxruntime installed)."""

import pathlib
import shutil

import numpy as np
import onnxruntime as ort
from onnx import MapProto, SequenceProto, TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
random = np.random.default_rng(0)
count, seen = {}, {}


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def bytes_(*shape):
    return random.integers(0, 256, shape).astype(np.uint8)


def signed(*shape):
    return random.integers(-128, 128, shape).astype(np.int8)


def port_of(name, v):
    """What a model says of a value: an array, a list of such, or a dict."""
    if isinstance(v, list):
        element = helper.np_dtype_to_tensor_dtype(v[0].dtype)
        return helper.make_tensor_sequence_value_info(name, element, None)
    if isinstance(v, dict):
        key = next(iter(v))
        number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        key = TensorProto.STRING if isinstance(key, str) else TensorProto.INT64
        return helper.make_value_info(name, helper.make_map_type_proto(key, number))
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)


def stored(v):
    """A value as a file has it."""
    if isinstance(v, list):
        many = SequenceProto()
        of_maps = isinstance(v[0], dict)
        many.elem_type = SequenceProto.MAP if of_maps else SequenceProto.TENSOR
        (many.map_values if of_maps else many.tensor_values).extend(stored(e) for e in v)
        return many
    if isinstance(v, dict):
        entries = MapProto()
        keys, texts = [k for k in v if isinstance(k, int)], [k.encode() for k in v if isinstance(k, str)]
        entries.key_type = TensorProto.STRING if texts else TensorProto.INT64
        entries.keys.extend(keys)
        entries.string_keys.extend(texts)
        entries.values.CopyFrom(stored([np.asarray(x, np.float32) for x in v.values()]))
        return entries
    return numpy_helper.from_array(np.asarray(v))


def made(op, inputs, outputs=1, domain="com.microsoft", fed=None, versions={}, typed=(), **attributes):
    """A model of one call, with what it is fed and a session of it. Outputs that are `typed` are declared to be floats, where
    onnxruntime does not know it."""
    inputs = [v if v is None or isinstance(v, (list, dict)) else np.asarray(v) for v in inputs]
    names = ["" if v is None else f"i{k}" for k, v in enumerate(inputs)]
    kept = [(n, v) for n, v in zip(names, inputs) if v is not None]
    given = [kept.pop(0) for _ in range(len(kept) if fed is None else fed)]
    outs = [helper.make_empty_tensor_value_info(f"o{k}") for k in range(outputs)]
    for k in typed:
        outs[k].CopyFrom(helper.make_tensor_value_info(f"o{k}", TensorProto.FLOAT, None))
    node = helper.make_node(op, names, [o.name for o in outs], domain=domain, **attributes)
    versions = {"": 17, "com.microsoft": 1, "ai.onnx.ml": 3, **versions}.items()
    weights = [numpy_helper.from_array(v, n) for n, v in kept]
    graph = helper.make_graph([node], op, [port_of(n, v) for n, v in given], outs, initializer=weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*v) for v in versions], ir_version=8)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return model, dict(given), lambda: ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def case(op, inputs, **how):
    """A folder for one call; an input that is left out is None, a list a sequence, a dict a map. Inputs behind the first `fed`
    are stored in the model, as onnxruntime wants weights that it prepares."""
    count[op] = count.get(op, 0) + 1
    folder = HERE / f"{op}_{count[op]}"
    shutil.rmtree(folder, ignore_errors=True)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    told(op, inputs, how)
    model, given, session = made(op, inputs, **how)
    session = session()
    kinds = [o.type for o in session.get_outputs()]
    for o, kind in zip(model.graph.output, kinds):
        if not kind.startswith("tensor"):
            o.CopyFrom(declared(o.name, kind))
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for k, v in enumerate(given.values()):
        (data / f"input_{k}.pb").write_bytes(stored(v).SerializeToString())
    for k, v in enumerate(session.run(None, given)):
        value = numpy_helper.from_optional(v) if kinds[k].startswith("optional") else stored(v)
        (data / f"output_{k}.pb").write_bytes(value.SerializeToString())


def declared(name, kind):
    """An output that is no tensor, from what onnxruntime says that it is."""
    element = {"float": TensorProto.FLOAT, "int64": TensorProto.INT64, "string": TensorProto.STRING}
    if kind.startswith("optional("):
        of = helper.make_tensor_type_proto(element[kind.removeprefix("optional(tensor(").rstrip(")")], None)
        return helper.make_value_info(name, helper.make_optional_type_proto(of))
    if kind.startswith("seq(map("):
        key, value = kind.removeprefix("seq(map(").rstrip(")").split(",tensor(")
        of = helper.make_map_type_proto(element[key], helper.make_tensor_type_proto(element[value], []))
    else:
        of = helper.make_tensor_type_proto(element[kind.removeprefix("seq(tensor(").rstrip(")")], None)
    return helper.make_value_info(name, helper.make_sequence_type_proto(of))


def told(op, inputs, how):
    """Notes which attributes and inputs of an operator a case has, or why it has none."""
    told = seen.setdefault((how.get("domain", "com.microsoft"), op), (set(), set()))
    told[0].update(how)
    told[1].update(i for i, v in enumerate(inputs) if v is not None)


def refused(why, op, inputs, **how):
    """A call that onnxruntime's CPU does not run, so that there is nothing to compare with: fails once it does."""
    _, given, session = made(op, inputs, **how)
    try:
        session().run(None, given)
    except Exception:
        return told(op, inputs, how)
    raise SystemExit(f"onnxruntime runs {op} with {sorted(how)}, which was refused: {why}")


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


def every_attribute():
    """What the cases above leave out of what an operator's schema has."""
    ml = {"domain": "ai.onnx.ml"}
    x = floats(5, 3)
    planes, vectors, weights = floats(9).tolist(), floats(12).tolist(), floats(8).tolist()
    three = {"coefficients": planes, "intercepts": [0.1, 0.2, 0.3], "classlabels_ints": [4, 7, 8], "outputs": 2, **ml}
    for after in ("LOGISTIC", "PROBIT"):
        case("LinearClassifier", [x], multi_class=1, post_transform=after, **three)
    for kind in (np.float64, np.int64, np.int32):
        case("LinearClassifier", [(x * 3).astype(kind)], **three)
        case("Scaler", [(x * 3).astype(kind)], offset=[0.5], scale=[2.0], **ml)
        case("Normalizer", [(x * 3).astype(kind)], norm="L2", **ml)
    case("Imputer", [np.array([[1, 2], [3, 9]])], imputed_value_int64s=[7], replaced_value_int64=9, **ml)
    case("OneHotEncoder", [np.array(["a", "c", "x"], object)], cats_strings=["a", "b", "c"], zeros=1, **ml)
    case("OneHotEncoder", [np.array([[1, 3], [2, 2]])], cats_int64s=[1, 2, 3], zeros=0, **ml)
    machine = {"kernel_type": "RBF", "kernel_params": [0.3, 0.1, 3.0], "support_vectors": vectors, **ml}
    texts = {"classlabels_strings": ["a", "b", "c"], "coefficients": weights, "rho": [0.1, 0.2, -0.3], "outputs": 2, **machine}
    for after in ("NONE", "SOFTMAX_ZERO", "PROBIT"):
        case("SVMClassifier", [x], vectors_per_class=[2, 1, 1], post_transform=after, **texts)
    # onnxruntime does not look at it; others are computed here as the specification says
    case("SVMRegressor", [x], coefficients=weights[:4], n_supports=4, rho=[0.2], post_transform="NONE", **machine)
    stump = {
        "nodes_treeids": [0] * 3,
        "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [0] * 3,
        "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0],
        **ml,
    }
    doubles = lambda *v: numpy_helper.from_array(np.array(v, np.float64))  # noqa: E731
    wide = {"nodes_values_as_tensor": doubles(0.1, 0, 0), "nodes_hitrates_as_tensor": doubles(1, 1, 1)}
    wide |= {"nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], **stump}
    target = {"target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "n_targets": 1}
    doubled = {"target_weights_as_tensor": doubles(1.5, -2), "base_values_as_tensor": doubles(0.5)}
    case("TreeEnsembleRegressor", [floats(7, 2).astype(np.float64)], **target, **doubled, **wide)
    # of two classes that both have leaves onnxruntime takes the second where its score is positive, calls them 0 and 1 whatever
    # their labels are, and puts one base value for two: here the greatest score wins, as among three
    three = {"class_treeids": [0] * 6, "class_nodeids": [1, 1, 1, 2, 2, 2], "class_ids": [0, 1, 2] * 2, "outputs": 2}
    doubled = {"class_weights_as_tensor": doubles(0.3, 0.6, 0.1, 0.5, 0.2, 0.3), "base_values_as_tensor": doubles(0.1, 0.2, 0.3)}
    case("TreeEnsembleClassifier", [floats(7, 2).astype(np.float64)], classlabels_int64s=[3, 4, 7], **three, **doubled, **wide)
    values = {"nodes_values": [1.0, 0.0, 0.0], "nodes_hitrates": [1.0, 2.0, 3.0], "class_weights": [0.3, 0.6, 0.1, 0.5, 0.2, 0.3]}
    rows = random.integers(-1, 4, (6, 2))
    for kind, mode in ((np.float32, "GTE"), (np.float64, "EQ"), (np.int64, "NEQ"), (np.int32, "GT")):
        how = {"nodes_modes": [f"BRANCH_{mode}", "LEAF", "LEAF"], **stump, **values, **three}
        case("TreeEnsembleClassifier", [rows.astype(kind)], classlabels_strings=["a", "b", "c"], **how)
    values = {"nodes_values": [1.0, 0.0, 0.0], "nodes_hitrates": [1.0, 2.0, 3.0], "target_weights": [1.5, -2.0], **target}
    for mode in ("GTE", "EQ", "NEQ"):
        how = {"nodes_modes": [f"BRANCH_{mode}", "LEAF", "LEAF"], **stump, **values}
        case("TreeEnsembleRegressor", [rows.astype(np.float32)], **how)

    window = {"kernel_shape": [3, 3]}
    cut = {"group": 2, "strides": [2, 1], "dilations": [1, 2], **window}
    for name, how in (("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.2]), ("Clip", [-0.5, 0.5]), ("HardSigmoid", [0.3, 0.4])):
        how = {"activation": name} | ({"activation_params": how} if how else {})
        case("FusedConv", [floats(1, 4, 8, 8), floats(4, 2, 3, 3), floats(4)], **how, **cut)
    case("FusedConv", [floats(1, 3, 8, 8), floats(4, 3, 3, 3), None, floats(1, 4, 8, 8)], activation="Relu", pads=[1] * 4, **window)
    for pad in ("SAME_UPPER", "SAME_LOWER"):
        case("FusedConv", [floats(1, 3, 8, 8), floats(4, 3, 3, 3)], activation="Relu", auto_pad=pad, strides=[2, 2], **window)
    case("QuickGelu", [floats(2, 8)], alpha=1.0)
    one = lambda v, d=np.uint8: np.array(v, d)  # noqa: E731
    a, b = [one(0.1, np.float32), one(5)], [one(0.2, np.float32), one(6)]
    add = random.integers(-500, 500, (3, 5)).astype(np.int32)
    case("QGemm", [bytes_(8, 3), *a, bytes_(5, 8), *b, add, one(2.0, np.float32), one(7)], transA=1, transB=1)
    pool = {"kernel_shape": [3, 2], "strides": [2, 2]}
    pair = [np.float32(0.1), np.uint8(3), np.float32(0.05), np.uint8(4)]
    case("QLinearAveragePool", [bytes_(1, 3, 6, 5), *pair], ceil_mode=1, **pool)
    for pad in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        case("QLinearAveragePool", [bytes_(1, 3, 6, 5), *pair], auto_pad=pad, **pool)
    case("QLinearGlobalAveragePool", [bytes_(1, 4, 4, 3), *pair], channels_last=1)
    for code, zero in ((np.uint8, 4), (np.int8, -4), (np.uint16, 400), (np.int16, -40)):
        case("QuantizeLinear", [floats(2, 3), np.float32(0.01), code(zero)])
        case("DequantizeLinear", [signed(2, 3).astype(code), np.float32(0.01), code(zero)])
    each = [np.array([0.1, 0.2], np.float32), np.array([4, 5], np.uint8)]
    case("QuantizeLinear", [floats(2, 3), *each], axis=0)
    case("DequantizeLinear", [bytes_(2, 3), *each], axis=0)
    case("DequantizeLinear", [signed(2, 3).astype(np.int32), np.float32(0.1)])
    weights = [signed(1, 3, 8), signed(1, 2, 8), floats(1, 16)]
    scales = [np.array([0.01], np.float32), np.zeros(1, np.int8)] * 2
    state = [np.array([4, 2], np.int32), floats(1, 2, 2), floats(1, 2, 2), floats(1, 6)]
    how = {"hidden_size": 2, "outputs": 3, "clip": 0.5}
    gates = {"activations": ["HardSigmoid", "Affine", "Tanh"], "activation_alpha": [0.3, 0.9], "activation_beta": [0.4, 0.1]}
    for more in ({}, gates, {"input_forget": 1}):
        case("DynamicQuantizeLSTM", [floats(4, 2, 3), *weights, *state, *scales], **more, **how)


def every_mask():
    """Attention's ways to say which keys are seen, and to keep them."""
    x, w, b = floats(2, 4, 12), floats(12, 36), floats(36)
    mask = np.array([[1, 1, 0, 1], [1, 0, 1, 1]], np.int32)
    case("Attention", [x, w, b, mask], num_heads=3, mask_filter_value=-3.0)
    case("Attention", [x, w, b, random.integers(0, 2, (2, 4, 4)).astype(np.int32)], num_heads=3)
    ends, packed = np.array([4, 3, 1, 0], np.int32), np.array([3, 2, 0, 4, 8, 0, 4, 8], np.int32)
    case("Attention", [x, w, b, ends], num_heads=3)
    case("Attention", [x, w, b, packed], num_heads=3)
    # without a bias, which its schema allows, onnxruntime ends with a segmentation fault
    refused("of CUDA only", "Attention", [floats(2, 4, 64), floats(64, 192), floats(192)], num_heads=2, do_rotary=1, rotary_embedding_dim=32)
    shared = [x, w, b, None, floats(2, 2, 3, 8, 4), None, np.array([2], np.int32)]
    refused("of CUDA only", "Attention", shared, outputs=2, num_heads=3, past_present_share_buffer=1)
    q, kv = floats(2, 4, 16), lambda n: floats(2, n, 16)  # noqa: E731
    case("MultiHeadAttention", [q, kv(6), kv(6)], num_heads=4, scale=0.3)
    case("MultiHeadAttention", [q, kv(4), kv(4), None, mask], num_heads=4, mask_filter_value=-3.0)
    case("MultiHeadAttention", [q, kv(4), kv(4), None, packed], num_heads=4)
    case("MultiHeadAttention", [q, kv(4), floats(2, 4, 32), floats(64)], num_heads=4)
    case("MultiHeadAttention", [q, floats(2, 4, 6, 4), floats(2, 4, 6, 4)], num_heads=4)
    case("MultiHeadAttention", [q, kv(4), kv(4), None, mask], outputs=4, typed=[3], num_heads=4)
    two = [floats(1, 2, 16) for _ in range(3)]
    past = [None, None, None, floats(1, 4, 3, 4), floats(1, 4, 3, 4)]
    case("MultiHeadAttention", [*two, *past], outputs=4, typed=[3], num_heads=4, unidirectional=1)
    refused("not on CPUs", "MultiHeadAttention", [floats(2, 4, 4, 3, 4)], num_heads=4)
    refused("not on CPUs", "MultiHeadAttention", [q, floats(2, 4, 4, 2, 4)], num_heads=4)
    step, buffers = [floats(2, 1, 16) for _ in range(3)], [floats(2, 4, 8, 4), floats(2, 4, 8, 4)]
    length, beams = np.array([3], np.int32), np.array([[[0, 0, 1, 0, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0, 0, 0]]], np.int32)
    case("MultiHeadAttention", [*step, None, None, None, *buffers, length], outputs=3, num_heads=4)
    case("MultiHeadAttention", [*step, None, None, None, *buffers, length, beams], outputs=3, num_heads=4)
    angles = np.arange(32)[:, None] * np.linspace(0.1, 1, 4)
    turn = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    at = np.array([[0, 1, 2], [3, 4, 5]], np.int64)
    case("RotaryEmbedding", [floats(2, 3, 32), at, *turn], num_heads=2, rotary_embedding_dim=8)
    case("RotaryEmbedding", [floats(2, 2, 3, 16), at, *turn], num_heads=2, rotary_embedding_dim=8)
    case("RotaryEmbedding", [floats(2, 2, 3, 8), at, *turn], scale=2.0)
    case("RotaryEmbedding", [floats(1, 6, 16), np.array([[0, 1, 2, 0, 1, 2]]), *turn], is_packed_batching=1)
    ids, tables = random.integers(0, 9, (2, 4)).astype(np.int32), [floats(9, 8), floats(6, 8), None, floats(8), floats(8)]
    for kind in (0, 1):
        case("EmbedLayerNormalization", [ids, None, *tables, mask], outputs=2, mask_index_type=kind)
    rows, scales = bytes_(8, 2, 16), np.abs(floats(16)) * np.float32(0.02)
    # other numbers are layouts of CUDA's kernels
    case("MatMulNBits", [floats(3, 64), rows, scales], K=64, N=8, bits=4, block_size=32, weight_prepacked=0)


def every_cache():
    """Grouped queries: all that the scores go through, and all that keys are kept in."""
    group = {"outputs": 3, "num_heads": 4, "kv_num_heads": 2}
    none = [np.zeros((1, 2, 0, 16), np.float32)] * 2
    prompt = [floats(1, 3, 64), floats(1, 3, 32), floats(1, 3, 32), *none, np.array([2], np.int32), np.array(3, np.int32)]
    new = lambda: [floats(1, 1, 64), floats(1, 1, 32), floats(1, 1, 32)]  # noqa: E731
    past = lambda n, total: [floats(1, 2, n, 16), floats(1, 2, n, 16), np.array([total - 1], np.int32), np.array(total, np.int32)]  # noqa: E731
    token = [*new(), *past(4, 5)]
    case("GroupQueryAttention", prompt, scale=0.4, **group)
    for inputs in (prompt, token):
        case("GroupQueryAttention", inputs, causal=0, **group)
        for shown in (1, 2):
            case("GroupQueryAttention", inputs, qk_output=shown, **{**group, "outputs": 4})
            case("GroupQueryAttention", inputs, qk_output=shown, softcap=0.5, smooth_softmax=1, **{**group, "outputs": 4})
    # a buffer that is longer than what is in it
    case("GroupQueryAttention", [*new(), *past(8, 5)], qk_output=1, **{**group, "outputs": 4})
    case("GroupQueryAttention", [*new(), *past(8, 5), None, None, None, floats(1, 1, 1, 5)], **group)
    case("GroupQueryAttention", [*prompt, None, None, None, floats(1, 4, 3, 3)], qk_output=1, local_window_size=2, **{**group, "outputs": 4})
    norms = [*prompt, *[None] * 7, floats(16), floats(16)]
    refused("of CUDA and WebGPU only", "GroupQueryAttention", norms, qk_norm_epsilon=1e-5, **group)
    for bits in (8, 4):
        for kind, scale in (("PER_TENSOR", lambda: np.array([0.2], np.float32)), ("PER_CHANNEL", lambda: np.abs(floats(1, 2, 1, 16)) + np.float32(0.05))):
            cache = [signed(1, 2, 4, 16) if bits == 8 else bytes_(1, 2, 4, 8) for _ in range(2)]
            ends = [np.array([4], np.int32), np.array(5, np.int32)]
            how = {"k_quant_type": kind, "v_quant_type": kind, "kv_cache_bit_width": bits, **group}
            case("GroupQueryAttention", [*new(), *cache, *ends, *[None] * 5, scale(), scale()], **how)
    # rows that are kept, and how many tokens there are: those where all rows are full
    for rows, total in ((4, 4), (4, 6), (6, 6), (6, 10), (3, 7)):
        case("GroupQueryAttention", [*new(), *past(rows, total)], local_window_size=3, sliding_window_cache=1, **group)
    bias = [None, None, None, floats(1, 1, 1, 6)]
    case("GroupQueryAttention", [*new(), *past(4, 6), *bias], local_window_size=3, sliding_window_cache=1, **group)
    several = [floats(1, 5, 64), floats(1, 5, 32), floats(1, 5, 32), *past(4, 8)]
    case("GroupQueryAttention", several, local_window_size=3, sliding_window_cache=1, **group)


def every_value():
    """Sequences, maps, optionals, and draws of which there is but one."""
    plain, ml = {"domain": ""}, {"domain": "ai.onnx.ml"}
    three, texts = [floats(2, 3), floats(2, 3), floats(2, 3)], [np.array(["a", "bc"], object)] * 2
    case("ConcatFromSequence", [three], axis=1, **plain)
    case("ConcatFromSequence", [three], axis=-1, new_axis=1, **plain)
    case("ConcatFromSequence", [texts], axis=0, **plain)
    case("SequenceAt", [three, np.array(-2)], **plain)
    case("SequenceAt", [three, np.array(1, np.int32)], **plain)
    case("SequenceConstruct", three, **plain)
    case("SequenceErase", [three], **plain)
    case("SequenceErase", [three, np.array(0)], **plain)
    case("Optional", [floats(2, 3)], **plain)
    for p in (1, 2, 3):
        case("GlobalLpPool", [floats(1, 2, 3, 4)], p=p, **plain)
    sure = np.log(np.array([[1e-30, 1, 1e-30], [1e-30, 1e-30, 1]], np.float32))
    case("Multinomial", [sure], sample_size=4, dtype=TensorProto.INT64, seed=1.0, **plain)
    case("Multinomial", [sure], **plain)
    for kind in (TensorProto.FLOAT, TensorProto.DOUBLE):
        near, same = {"mean": 2.0, "scale": 1e-6, "dtype": kind, "seed": 1.0}, {"low": 2.0, "high": 2.0, "dtype": kind, "seed": 1.0}
        case("RandomNormal", [], shape=[2, 3], **near, **plain)
        case("RandomUniform", [], shape=[2, 3], **same, **plain)
        case("RandomNormalLike", [floats(2, 3)], **near, **plain)
        case("RandomUniformLike", [floats(2, 3)], **same, **plain)
    scores = floats(3, 2)
    case("ZipMap", [scores], classlabels_int64s=[4, 7], **ml)
    case("ZipMap", [scores], classlabels_strings=["a", "b"], **ml)
    numbers = {1: 2.5, 0: -1.25, 7: 3.0}
    for to in ("TO_FLOAT", "TO_STRING", "TO_INT64"):
        case("CastMap", [numbers], cast_to=to, **ml)
        case("CastMap", [numbers], cast_to=to, map_form="SPARSE", max_map=9, **ml)
    pairs = {"cats_strings": ["a", "b"], "cats_int64s": [5, 6], **ml}
    case("CategoryMapper", [np.array(["a", "z"], object)], default_int64=-7, **pairs)
    case("CategoryMapper", [np.array([[5], [9]])], default_string="?", **pairs)
    kinds = {
        "strings": (["a", "b"], "default_string", "?", np.array(["b", "z"], object)),
        "int64s": ([3, 4], "default_int64", -3, np.array([[4], [9]])),
        "floats": ([0.5, 1.5], "default_float", 9.5, np.array([1.5, 7.0], np.float32)),
    }
    for kind, (keys, _, _, x) in kinds.items():
        for to, (values, name, other, _) in kinds.items():
            case("LabelEncoder", [x], **{f"keys_{kind}": keys, f"values_{to}": values, name: other}, **ml)
    tensor = lambda *v: numpy_helper.from_array(np.array(v, np.float64))  # noqa: E731
    table = {"keys_tensor": tensor(0.5, 1.5), "values_tensor": tensor(2.5, 3.5), "default_tensor": tensor(-1), "versions": {"ai.onnx.ml": 4}}
    case("LabelEncoder", [np.array([1.5, 7.0, 0.5])], **table, **ml)
    case("DictVectorizer", [{"a": 1.5, "c": 2.0}], string_vocabulary=["c", "b", "a"], **ml)
    case("DictVectorizer", [{1: 1.5, 3: 2.0}], int64_vocabulary=[3, 2, 1], **ml)


def left_out():
    """Attributes and inputs in the schemas of these operators that no case has."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    newest = {}
    for s in get_all_operator_schema():
        if s.domain and (s.domain, s.name) in seen and s.since_version >= newest.get((s.domain, s.name), s).since_version:
            newest[s.domain, s.name] = s
    for at, s in sorted(newest.items()):
        attributes, inputs = seen[at]
        yield from (f"{s.name}: attribute {a}" for a in sorted(set(s.attributes) - attributes))
        yield from (f"{s.name}: input {v.name}" for i, v in enumerate(s.inputs) if i not in inputs)


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
    every_attribute()
    every_mask()
    every_cache()
    every_value()
    print(f"{sum(count.values())} models")
    if rest := list(left_out()):
        raise SystemExit("no case has\n" + "\n".join(rest))
