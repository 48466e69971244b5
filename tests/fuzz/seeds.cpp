#include "fuzz/seeds.hpp"

#include <algorithm>
#include <cstdint>
#include <random>

#include "driftbound/trace/arithmetic.hpp"
#include "support/npy_writer.hpp"
#include "support/onnx_writer.hpp"
#include "support/rich_model.hpp"
#include "support/zip_writer.hpp"

namespace driftbound::fuzz {
namespace {

using namespace test;

constexpr std::int64_t huge = std::int64_t{1} << 62;

std::string safetensors_of(const std::string& header, std::size_t data_size) {
  return little_endian(header.size(), 8) + header + std::string(data_size, '\0');
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) result += c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return result + "\"";
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape, std::size_t begin,
                  std::size_t end) {
  return quoted(name) + R"(:{"dtype":")" + type + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

// ---- ONNX -----------------------------------------------------------------------------------------------------------

OnnxModel small_model(std::string_view op, const std::vector<OnnxAttribute>& attributes = {}) {
  OnnxModel model(13);
  model.input("x", {2, 3}).node(op, {"x"}, "y", attributes).output("y");
  return model;
}

std::string model_with(const Message& tensor) {
  return OnnxModel(13).input("x", {1}).initializer(tensor).node("Add", {"x", "c"}, "y").output("y").bytes();
}

/// A graph inside an attribute inside a graph, and so on.
Message nested_graph(int depth) {
  Message node = Message().bytes(2, "y").bytes(4, "If");
  if (depth > 0) node.message(5, Message().bytes(1, "then_branch").message(6, nested_graph(depth - 1)).varint(20, 5));
  return Message().message(1, node);
}

std::string external(std::string_view location) {
  return model_with(onnx_tensor_header("c", onnx_float, {1})
                        .varint(14, 1)
                        .message(13, Message().bytes(1, "location").bytes(2, location)));
}

void add_onnx(std::vector<Seed>& all) {
  const auto add = [&](const std::string& name, std::string bytes) { all.push_back({"onnx", name, std::move(bytes)}); };
  const auto constant = [](const std::vector<std::int64_t>& shape) {
    return onnx_tensor_header("c", onnx_float, shape).bytes(9, "");
  };
  add("rich", rich_model().bytes());
  const std::string rich = rich_model().bytes();
  add("cut", rich.substr(0, rich.size() / 2));
  for (const char* op : {"Relu", "Elu", "Flatten", "Squeeze", "Cast", "Dropout", "Conv", "Identity"})
    add(op, small_model(op).bytes());
  add("axis_beyond_rank", small_model("Softmax", {OnnxAttribute::of_int("axis", huge)}).bytes());
  add("shape_overflows", model_with(constant({huge, huge})));
  add("shape_absurd", model_with(constant({huge, 1})));
  add("shape_negative", model_with(constant({-1})));
  add("shape_empty", model_with(constant({huge, 0})));
  add("length_beyond_end", rich.substr(0, 2) + "\x3a\xff\xff\xff\xff\x0f");
  add("nested",
      OnnxModel(13).node("Relu", {"x"}, "y").output("y").bytes() + Message().message(7, nested_graph(60)).data());
  std::string groups(300, '\x53');
  add("nested_groups", groups);
  add("cycle", OnnxModel(13).node("Add", {"b", "x"}, "a").node("Relu", {"a"}, "b").input("x", {1}).output("b").bytes());
  add("same_name_twice", OnnxModel(13).input("x", {1}).input("x", {1}).node("Relu", {"x"}, "x").output("x").bytes());
  add("not_utf8",
      OnnxModel(13).input("\xff\x1b[31m", {1}).node("Relu", {"\xff\x1b[31m"}, "\xc3(").output("\xc3(").bytes());
  add("external_up", external("../../etc/passwd"));
  add("external_absolute", external("/etc/passwd"));
}

// ---- arrays ---------------------------------------------------------------------------------------------------------

const std::string plain_npy = npy_of<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6});

/// zeros, deflated with the fixed code: blocks of one literal and matches of 258 bytes, 13 bits each.
std::string deflated_zeros(std::size_t matches) {
  std::string bytes;
  unsigned pending = 0;
  int bits = 0;
  const auto put = [&](unsigned code, int length) {  // the first bit of a code is its most significant one
    for (int i = length; i-- > 0;) {
      pending |= ((code >> i) & 1u) << bits;
      if (++bits < 8) continue;
      bytes += static_cast<char>(pending);
      pending = 0;
      bits = 0;
    }
  };
  put(0b1, 1);                                                    // last block
  put(0b10, 2);                                                   // fixed code, least significant bit first
  put(0x30, 8);                                                   // literal 0
  for (std::size_t i = 0; i < matches; ++i) put(0xC5u << 5, 13);  // 258 bytes from one byte back
  put(0, 7);                                                      // end of block
  put(0, 7);
  return bytes;
}

/// Members that all lie on the same deflated bytes: a few kilobytes for a hundred megabytes. Nothing in it is a lie.
std::string zip_bomb(std::size_t members, std::size_t matches) {
  const std::string header = npy_with_header(npy_header("|u1", {static_cast<std::int64_t>(1 + 258 * matches)}), "");
  const std::string stored =
      '\0' + little_endian(header.size(), 2) + little_endian(~header.size() & 0xFFFF, 2) + header;
  const std::string data = stored + deflated_zeros(matches);
  const std::string unpacked = header + std::string(1 + 258 * matches, '\0');
  const std::string checksum = little_endian(crc32_of(unpacked), 4);
  const auto common = [&](std::size_t name_size) {
    return little_endian(20, 2) + little_endian(0, 2) + little_endian(8, 2) + little_endian(0, 4) + checksum +
           little_endian(data.size(), 4) + little_endian(unpacked.size(), 4) + little_endian(name_size, 2) +
           little_endian(0, 2);
  };
  const std::string archive = "PK\x03\x04" + common(0) + data;
  std::string directory;
  for (std::size_t i = 0; i < members; ++i) {
    const std::string name = std::to_string(i) + ".relu._.npy";
    directory += "PK\x01\x02" + little_endian(20, 2) + common(name.size()) + little_endian(0, 2) + little_endian(0, 2) +
                 little_endian(0, 2) + little_endian(0, 4) + little_endian(0, 4) + name;
  }
  return archive + directory + "PK\x05\x06" + little_endian(0, 4) + little_endian(members, 2) +
         little_endian(members, 2) + little_endian(directory.size(), 4) + little_endian(archive.size(), 4) +
         little_endian(0, 2);
}

void add_arrays(std::vector<Seed>& all) {
  const auto npy = [&](const std::string& name, std::string bytes) { all.push_back({"npy", name, std::move(bytes)}); };
  npy("plain", plain_npy);
  npy("cut", plain_npy.substr(0, plain_npy.size() - 3));
  npy("fortran", npy_of<double>("<f8", {2, 2}, {1, 2, 3, 4}, true));
  npy("big_endian", npy_of<double>(">f8", {2, 2}, {1, 2, 3, 4}));
  npy("version_3", npy_with_header(npy_header("<f2", {2}), "abcd", 3));
  npy("integers", npy_of<std::int64_t>("<i8", {2}, {INT64_MAX, INT64_MIN}));
  npy("booleans", npy_with_header(npy_header("|b1", {3}), "\1\1\7"));
  npy("overflows", npy_with_header(npy_header("<f8", {huge, huge}), ""));
  npy("absurd", npy_with_header(npy_header("<f8", {huge}), ""));
  npy("empty", npy_with_header(npy_header("<f8", {huge, 0}, true), ""));
  npy("objects", npy_with_header(npy_header("|O", {1}), "12345678"));
  npy("header_beyond_end", std::string("\x93NUMPY\x02") + '\0' + "\xff\xff\xff\xff{");

  const std::string layers = zip_of({{"0000.dense.A.npy", npy_of<float>("<f4", {3, 2}, {1, 2, 3, 4, 5, 6})},
                                     {"0000.dense.b.npy", npy_of<float>("<f4", {2}, {1, 2})},
                                     {"0001.relu._.npy", npy_of<float>("<f4", {0}, {})}});
  const auto zip = [&](const std::string& name, std::string bytes) { all.push_back({"zip", name, std::move(bytes)}); };
  zip("layers", layers);
  zip("cut", layers.substr(0, layers.size() - 30));
  zip("empty", zip_of({}));
  zip("same_name_twice", zip_of({{"0.relu._.npy", plain_npy}, {"0.relu._.npy", plain_npy}}));
  zip("bomb", zip_bomb(50, 8'000));
  zip("absurd", zip_of({{"0.dense.A.npy", npy_with_header(npy_header("<f8", {huge, 1}), "")}}));
  zip("large_claim", zip_of({{"0.dense.A.npy", npy_with_header(npy_header("<f8", {1 << 22, 100}), "")}}));
}

void add_inputs(std::vector<Seed>& all) {
  const auto add = [&](const std::string& name, std::size_t model, std::size_t format, const std::string& bytes) {
    all.push_back({"inputs", name, static_cast<char>(model + 4 * format) + bytes});
  };
  add("npy", 0, 0, plain_npy);
  add("npz", 0, 1, zip_of({{"arr_0.npy", plain_npy}}));
  add("npz_two", 1, 1,
      zip_of({{"a.npy", npy_of<float>("<f4", {1, 2}, {1, 2})}, {"b/c.npy", npy_of<double>("<f8", {1, 2}, {1, 2})}}));
  add("safetensors", 0, 2, safetensors_of("{" + entry("x", "F32", "[1,3]", 0, 12) + "}", 12));
  add("safetensors_trace", 1, 2,
      safetensors_of("{" + entry("input/a", "F32", "[1,2]", 0, 8) + "," + entry("input/b.c", "F32", "[2]", 0, 8) + "}",
                     8));
  add("csv", 0, 3, "a,b,c\n1,2,3\n0x1p-3,inf,nan\n");
  add("csv_integers", 2, 3, "1 2 3 4\n70000 0.5 1 1\n");
  add("fixed_rows", 3, 0, npy_of<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6}));
}

// ---- text -----------------------------------------------------------------------------------------------------------

void add_text(std::vector<Seed>& all) {
  const auto csv = [&](const std::string& name, std::string bytes) { all.push_back({"csv", name, std::move(bytes)}); };
  csv("comma", "a,b\n1,2\n-3e5,0x1.8p-3\n");
  csv("semicolon", "\"1\";\"2\"\r\n# comment\r\n\r\n3;inf\r\n");
  csv("blanks", "\xEF\xBB\xBF 1\t2 \n nan -inf\n");
  csv("ragged", "1,2\n3\n");
  csv("missing", "1,,2\n1,2,\n");
  csv("out_of_range", "1e999,0x1p9999\n" + std::string(300, '9') + "\n");
  csv("not_utf8", "1,\xff\xfe\n\x1b[31m\n");

  const std::string arithmetic = to_json(ArithmeticModel{});
  const auto json = [&](const std::string& name, std::string bytes) {
    all.push_back({"json", name, std::move(bytes)});
  };
  json("arithmetic", arithmetic);
  json(
      "functions",
      R"({"name":"f","input":"fp16","accumulator":"fp32","output":"bf16","rounding":"up","order":"blocked:4","functions":[{"function":"exp","units":2.5,"evidence":"measured","source":""}]})");
  json("unknown_field", R"({"name":"a","colour":"b"})");
  json("key_twice", R"({"name":"a","name":"b"})");
  json("not_utf8", "{\"name\":\"\xff\xfe\"}");
  json("nested", " " + std::string(200, '[') + std::string(200, ']'));
  json("provenance", R"( {"program":"p","backend":["cuda"],"date":null,"details":{"a":1,"b":"c"},"batch":4})");
  json("huge_number", R"({"name":"a","functions":[{"function":"exp","units":1e999}]})");

  const std::string input = entry("input/x", "F32", "[1,3]", 0, 12);
  const std::string layers =
      entry("layer/0/h/output", "F32", "[1,2]", 12, 20) + "," + entry("layer/1/y/output", "F32", "[1,2]", 12, 20);
  const auto trace = [&](const std::string& name, std::size_t model, std::size_t data, const std::string& header) {
    all.push_back({"trace", name, static_cast<char>(model + data / 4 * 4) + header});
  };
  trace("plain", 0, 64, "{" + input + "," + layers + "}");
  trace("metadata", 0, 64,
        R"({"__metadata__":{"driftbound.trace":"1","model_sha256":"00","provenance":"{}","arithmetic":)" +
            quoted(arithmetic) + "}," + input + "," + layers + "}");
  trace("by_order", 0, 64,
        "{" + input + "," + entry("layer/7/p/output", "F32", "[1,2]", 0, 8) + "," +
            entry("layer/9/q/output", "F16", "[2]", 0, 4) + "}");
  trace(
      "integers", 2, 64,
      "{" + entry("input/x", "I16", "[3,2,2]", 0, 24) + "," + entry("layer/0/y/output", "F32", "[3,2,2]", 0, 48) + "}");
  trace("absurd", 0, 64, "{" + entry("input/x", "F32", "[4611686018427387904,3]", 0, 12) + "," + layers + "}");
  trace("empty", 0, 64, "{" + entry("input/x", "F32", "[0,3]", 0, 0) + "," + layers + "}");

  const auto file = [&](const std::string& name, std::string bytes) {
    all.push_back({"safetensors", name, std::move(bytes)});
  };
  file("plain",
       safetensors_of("{" + entry("a", "BF16", "[2,2]", 0, 8) + "," + entry("b", "I64", "[]", 8, 16) + "}", 16));
  file("metadata", safetensors_of(R"({"__metadata__":{"k":"v"}})", 0));
  file("cut", safetensors_of("{" + entry("a", "F32", "[4]", 0, 16) + "}", 3));
  file("overlap",
       safetensors_of("{" + entry("a", "F32", "[4]", 0, 16) + "," + entry("b", "F8_E4M3", "[8]", 8, 16) + "}", 16));
  file("overflows", safetensors_of("{" + entry("a", "F32", "[4611686018427387904,16]", 0, 0) + "}", 0));
  file("length_beyond_end", little_endian(~std::uint64_t{0}, 8) + "{}");
  file("nested", safetensors_of(R"({"a":)" + std::string(120, '[') + std::string(120, ']') + "}", 0));
  file("not_utf8", safetensors_of("{" + entry("\xff\x1b", "F32", "[0]", 0, 0) + "}", 0));
}

// ---- recorded runs --------------------------------------------------------------------------------------------------

/// `tensors`: entries of the header.
std::string recording(const std::string& records, const std::string& values, const std::string& tensors,
                      std::size_t data_size) {
  const std::string metadata =
      R"("__metadata__":{"driftbound.trace":"2","run":"a","shard":"0","last":"true","records":)" + quoted(records) +
      R"(,"values":)" + quoted(values) + "}";
  return safetensors_of("{" + metadata + (tensors.empty() ? "" : ",") + tensors + "}", data_size);
}

void add_recordings(std::vector<Seed>& all) {
  const auto add = [&](const std::string& name, std::string bytes) {
    all.push_back({"recording", name, std::move(bytes)});
  };
  const std::string value = R"({"type":"F32","shape":[2,2]})";
  const auto tensor = [](const std::string& id, std::size_t at) {
    return entry("value/" + id, "F32", "[2,2]", 16 * at, 16 * at + 16);
  };
  add("network", recording(R"([{"op":"aten::mm","operands":["a","b"],"results":["c"]},)"
                           R"({"op":"aten::_softmax","operands":["c"],"results":["d"],"attributes":{"dim":-1}}])",
                           R"({"a":)" + value + R"(,"b":)" + value + R"(,"c":)" + value + R"(,"d":)" + value + "}",
                           tensor("a", 0) + "," + tensor("b", 1) + "," + tensor("c", 2) + "," + tensor("d", 3), 64));
  add("views",
      recording(R"([{"op":"aten::t","operands":["a"],"results":["b"]},)"
                R"({"op":"aten::expand","operands":["b"],"results":["c"],"attributes":{"size":[3,2,2]}},)"
                R"({"op":"aten::sum","operands":["c"],"results":["d"],"attributes":{"dim":[0]}}])",
                R"({"a":)" + value + R"(,"b":)" + value + R"(,"c":{"type":"F32","shape":[3,2,2]},"d":)" + value + "}",
                tensor("a", 0) + "," + tensor("d", 1), 32));
  add("parts",
      recording(R"([{"op":"Gelu","operands":["a"],"results":["b"]}])",
                R"({"a":{"type":"F32","shape":[2,2],"part":{"axes":[0]}},)"
                R"("b":{"type":"F32","shape":[2,2],"part":{"elements":true,"draws":1}}})",
                entry("value/a", "F32", "[1,2]", 0, 8) + "," + entry("value/a/axis/0", "I64", "[1]", 8, 16) + "," +
                    entry("value/b", "F32", "[1]", 16, 20) + "," + entry("value/b/elements", "I64", "[1]", 20, 28),
                28));
  add("attention",
      recording(R"([{"op":"aten::scaled_dot_product_attention","operands":["a","a","a"],"results":["d"],)"
                R"("attributes":{"is_causal":true}}])",
                R"({"a":{"type":"F32","shape":[1,1,2,2]},"d":{"type":"F32","shape":[1,1,2,2]}})",
                entry("value/a", "F32", "[1,1,2,2]", 0, 16) + "," + entry("value/d", "F32", "[1,1,2,2]", 16, 32), 32));
  add("absurd",
      recording(R"([{"op":"aten::expand","operands":["a"],"results":["b"],"attributes":{"size":[1099511627776]}},)"
                R"({"op":"aten::sum","operands":["b"],"results":["c"]}])",
                R"({"a":{"type":"F32","shape":[1]},"b":{"type":"F32","shape":[1099511627776]},)"
                R"("c":{"type":"F32","shape":[]}})",
                entry("value/a", "F32", "[1]", 0, 4) + "," + entry("value/c", "F32", "[]", 0, 4), 4));
  add("loop", recording(R"([{"op":"aten::t","operands":["a"],"results":["a"]}])", R"({"a":)" + value + "}", "", 0));
}

// ---- draws ----------------------------------------------------------------------------------------------------------

void add_draws(std::vector<Seed>& all) {
  std::mt19937_64 random(20261121);
  for (const char* target : {"drawn_onnx", "shapes", "layers"}) {
    int number = 0;
    for (const std::size_t length : {16u, 32u, 64u, 64u, 128u, 128u, 256u, 256u}) {
      std::string bytes(length, '\0');
      std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
      all.push_back({target, "draws_" + std::to_string(number++), std::move(bytes)});
    }
  }
}

}  // namespace

std::vector<Seed> seeds() {
  std::vector<Seed> all;
  add_onnx(all);
  add_arrays(all);
  add_inputs(all);
  add_text(all);
  add_recordings(all);
  add_draws(all);
  return all;
}

}  // namespace driftbound::fuzz
