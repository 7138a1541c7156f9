//! The messages of an ONNX file, as tables of their fields: texts and bytes are borrowed from the file.
//!
//! Field numbers are those of `onnx.proto`; what nothing here needs (docs, annotations, training, devices) is passed over.

use crate::wire::{Decode, Fault, Packed, Wire, message};

message! {
    /// A file.
    Model<'a> {
        1 ir_version: i64,
        2 producer_name: &'a str,
        7 graph: Option<Graph<'a>>,
        8 opset_import: Vec<OperatorSet<'a>>,
        14 metadata_props: Vec<Entry<'a>>,
        25 functions: Vec<Function<'a>>,
    }
}
message! {
    /// A version of a domain's operators.
    OperatorSet<'a> {
        1 domain: &'a str,
        2 version: i64,
    }
}
message! {
    /// Nodes between inputs and outputs.
    Graph<'a> {
        1 node: Vec<Node<'a>>,
        2 name: &'a str,
        5 initializer: Vec<TensorData<'a>>,
        11 input: Vec<ValueInfo<'a>>,
        12 output: Vec<ValueInfo<'a>>,
        13 value_info: Vec<ValueInfo<'a>>,
        15 sparse_initializer: Vec<SparseTensor<'a>>,
    }
}
message! {
    /// A call of an operator or function.
    Node<'a> {
        1 input: Vec<&'a str>,
        2 output: Vec<&'a str>,
        3 name: &'a str,
        4 op_type: &'a str,
        5 attribute: Vec<Attribute<'a>>,
        7 domain: &'a str,
        8 overload: &'a str,
    }
}
message! {
    /// An argument that is known when the model is written.
    Attribute<'a> {
        1 name: &'a str,
        2 f: Option<f32>,
        3 i: Option<i64>,
        4 s: Option<&'a [u8]>,
        5 t: Option<Box<TensorData<'a>>>,
        6 g: Option<Box<Graph<'a>>>,
        7 floats: Packed<'a, f32>,
        8 ints: Packed<'a, i64>,
        9 strings: Vec<&'a [u8]>,
        14 tp: Option<Box<Type<'a>>>,
        20 kind: i64,
        21 ref_attr_name: &'a str,
        22 sparse_tensor: Option<Box<SparseTensor<'a>>>,
    }
}
message! {
    /// A function of the model: its calls are replaced by its nodes.
    Function<'a> {
        1 name: &'a str,
        4 input: Vec<&'a str>,
        5 output: Vec<&'a str>,
        6 attribute: Vec<&'a str>,
        7 node: Vec<Node<'a>>,
        9 opset_import: Vec<OperatorSet<'a>>,
        10 domain: &'a str,
        11 attribute_proto: Vec<Attribute<'a>>,
        13 overload: &'a str,
    }
}
message! {
    /// A name with its type.
    ValueInfo<'a> {
        1 name: &'a str,
        2 kind: Option<Type<'a>>,
    }
}
message! {
    /// What a value is: one of these.
    Type<'a> {
        1 tensor: Option<TensorType<'a>>,
        4 sequence: Option<Box<ElementOf<'a>>>,
        5 map: Option<Box<MapType<'a>>>,
        8 sparse_tensor: Option<TensorType<'a>>,
        9 optional: Option<Box<ElementOf<'a>>>,
    }
}
message! {
    /// What a sequence or an optional holds.
    ElementOf<'a> {
        1 elem_type: Option<Type<'a>>,
    }
}
message! {
    /// What a map holds.
    MapType<'a> {
        1 key_type: i64,
        2 value_type: Option<Type<'a>>,
    }
}
message! {
    /// Element type and shape of a tensor.
    TensorType<'a> {
        1 elem_type: i64,
        2 shape: Option<TensorShape<'a>>,
    }
}
message! {
    /// Dims.
    TensorShape<'a> {
        1 dim: Vec<Dimension<'a>>,
    }
}
message! {
    /// A number, a name, or neither.
    Dimension<'a> {
        1 dim_value: Option<i64>,
        2 dim_param: &'a str,
    }
}
message! {
    /// A tensor's elements: raw, in the field of its type, or in another file.
    TensorData<'a> {
        1 dims: Packed<'a, i64>,
        2 data_type: i64,
        4 float_data: Packed<'a, f32>,
        5 int32_data: Packed<'a, i32>,
        6 string_data: Vec<&'a [u8]>,
        7 int64_data: Packed<'a, i64>,
        8 name: &'a str,
        9 raw_data: Option<&'a [u8]>,
        10 double_data: Packed<'a, f64>,
        11 uint64_data: Packed<'a, u64>,
        13 external_data: Vec<Entry<'a>>,
        14 data_location: i64,
    }
}
message! {
    /// A key with its value.
    Entry<'a> {
        1 key: &'a str,
        2 value: &'a str,
    }
}
message! {
    /// The elements of a tensor that are not zero, and where they are.
    SparseTensor<'a> {
        1 values: TensorData<'a>,
        2 indices: TensorData<'a>,
        3 dims: Packed<'a, i64>,
    }
}
message! {
    /// A stored sequence.
    SequenceData<'a> {
        1 name: &'a str,
        2 elem_type: i64,
        3 tensor_values: Vec<TensorData<'a>>,
        5 sequence_values: Vec<SequenceData<'a>>,
        6 map_values: Vec<MapData<'a>>,
        7 optional_values: Vec<OptionalData<'a>>,
    }
}
message! {
    /// A stored map: its keys in the field of their type, as many values.
    MapData<'a> {
        1 name: &'a str,
        2 key_type: i64,
        3 keys: Packed<'a, i64>,
        4 string_keys: Vec<&'a [u8]>,
        5 values: SequenceData<'a>,
    }
}
message! {
    /// A stored optional.
    OptionalData<'a> {
        1 name: &'a str,
        2 elem_type: i64,
        3 tensor_value: Option<Box<TensorData<'a>>>,
        5 sequence_value: Option<Box<SequenceData<'a>>>,
    }
}

/// A message from its bytes.
pub fn parse<'a, T: Decode<'a> + Default>(bytes: &'a [u8]) -> Result<T, Fault> {
    let mut out = T::default();
    out.merge(Wire::Bytes(bytes), 0).map(|()| out)
}
