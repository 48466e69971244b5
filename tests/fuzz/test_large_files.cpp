#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "fuzz/memory_count.hpp"
#include "fuzz/targets.hpp"
#include "model/array_files.hpp"
#include "model/load_formats.hpp"
#include "support/npy_writer.hpp"
#include "support/onnx_writer.hpp"
#include "support/process_memory.hpp"

using namespace driftbound;
using namespace driftbound::fuzz;
using namespace driftbound::test;

namespace {

constexpr std::size_t megabyte = 1'000'000;

/// Megabytes of the smallest parts there are, each many times as large in memory. Written into `file` until it is full.
struct Swarm {
  const char* target;
  const char* name;
  std::function<std::string(std::size_t)> of_size;
};

std::string repeated(const std::string& part, std::size_t size) {
  std::string text;
  while (text.size() < size) text += part;
  return text;
}

/// A short name of its own for every number.
std::string name_of(std::size_t number) {
  std::string name;
  for (; number > 0 || name.empty(); number /= 64) name += static_cast<char>('0' + number % 64);
  return name;
}

std::string numbered(std::size_t size, const std::function<std::string(std::size_t)>& part) {
  std::string text;
  for (std::size_t i = 1; text.size() < size; ++i) text += part(i);
  return text;
}

/// A model with one input x and one output y, and parts of its graph besides.
std::string model_with(const std::string& parts, const std::string& outside_graph = "") {
  OnnxModel model(13);
  model.input("x", {1, 2}).node("Relu", {"x"}, "y").output("y");
  model.graph().append(parts);
  return model.bytes() + outside_graph;
}

std::string field(int number, const Message& message) {
  return Message().message(number, message).data();
}

/// One node, as many of its fields as fit.
std::string node_with(const std::string& op, const std::string& fields) {
  return field(1, Message().bytes(4, op).bytes(2, "z").append(fields));
}

Message tensor_of(const std::string& name, int field_of_data, const std::string& data, std::int64_t elements) {
  return onnx_tensor_header(name, onnx_int64, {elements}).bytes(field_of_data, data);
}

std::vector<Swarm> onnx_swarms() {
  const auto nodes = [](const char* op) {
    return [op](std::size_t size) {
      return model_with(numbered(
          size, [&](std::size_t i) { return field(1, onnx_node(op, {i == 1 ? "x" : name_of(i - 1)}, {name_of(i)})); }));
    };
  };
  const auto one_node = [](const char* op, const std::string& part) {
    return [=](std::size_t size) { return model_with(node_with(op, repeated(part, size))); };
  };
  return {
      {"onnx", "nodes", nodes("Relu")},
      {"onnx", "nodes of no known op", nodes("Q")},
      {"onnx", "nodes with names that are not fit to print",
       [](std::size_t size) {
         return model_with(numbered(size, [](std::size_t i) {
           return field(1, onnx_node("Relu", {"x"}, {name_of(i)}, {}, std::string(200, '\xFF')));
         }));
       }},
      {"onnx", "inputs of a node", one_node("Sum", Message().bytes(1, "x").data())},
      {"onnx", "inputs of a node that are left out", one_node("Sum", Message().bytes(1, "").data())},
      {"onnx", "outputs of a node that are left out", one_node("Split", Message().bytes(2, "").data())},
      {"onnx", "outputs of a node",
       [](std::size_t size) {
         return model_with(node_with("Split", Message().bytes(1, "x").data() + numbered(size, [](std::size_t i) {
                                                return Message().bytes(2, name_of(i)).data();
                                              })));
       }},
      {"onnx", "attributes",
       [&](std::size_t size) {
         return model_with(node_with("Relu", numbered(size, [](std::size_t i) {
                                       return Message().bytes(5, Message().bytes(1, name_of(i)).data()).data();
                                     })));
       }},
      {"onnx", "numbers of an attribute",
       [=](std::size_t size) {
         return model_with(
             node_with("Constant", Message()
                                       .bytes(5, Message()
                                                     .bytes(1, "value_ints")
                                                     .varint(20, 7)
                                                     .append(repeated(Message().varint(8, 1).data(), size))
                                                     .data())
                                       .data()));
       }},
      {"onnx", "packed numbers of an attribute",
       [=](std::size_t size) {
         return model_with(node_with(
             "Constant",
             Message()
                 .bytes(5, Message().bytes(1, "value_ints").varint(20, 7).bytes(8, std::string(size, '\1')).data())
                 .data()));
       }},
      {"onnx", "initialisers",
       [](std::size_t size) {
         return model_with(
             numbered(size, [](std::size_t i) { return field(5, onnx_tensor_header(name_of(i), onnx_float, {0})); }));
       }},
      {"onnx", "sparse initialisers",
       [](std::size_t size) {
         const Message none = onnx_tensor_header("", onnx_int64, {0});
         return model_with(numbered(size, [&](std::size_t i) {
           return field(15, onnx_sparse_tensor(onnx_tensor_header(name_of(i), onnx_float, {0}), none, {1}));
         }));
       }},
      {"onnx", "an initialiser of packed numbers",
       [](std::size_t size) {
         return model_with(field(5, tensor_of("c", 7, std::string(size, '\1'), static_cast<std::int64_t>(size))));
       }},
      {"onnx", "an initialiser of single numbers",
       [](std::size_t size) {
         return model_with(field(5, onnx_tensor_header("c", onnx_int64, {static_cast<std::int64_t>(size / 2)})
                                        .append(repeated(Message().varint(7, 1).data(), size / 2 * 2))));
       }},
      {"onnx", "single numbers of an initialiser that is damaged behind them",
       [](std::size_t size) {
         return model_with(
             field(5, onnx_tensor_header("c", onnx_float16, {1}).append(repeated("\x28\x01", size) + "\x07")));
       }},
      {"onnx", "inputs",
       [](std::size_t size) {
         return model_with(
             numbered(size, [](std::size_t i) { return OnnxModel().input(name_of(i), {}).graph().data(); }));
       }},
      {"onnx", "extents of an input",
       [](std::size_t size) {
         const Message type = Message().varint(1, 1).bytes(2, repeated(std::string("\x0A\x00", 2), size));
         return model_with(field(11, Message().bytes(1, "i").message(2, Message().message(1, type))));
       }},
      {"onnx", "outputs",
       [](std::size_t size) { return model_with(repeated(field(12, Message().bytes(1, "y")), size)); }},
      {"onnx", "values' shapes",
       [](std::size_t size) { return model_with(repeated(field(13, Message().bytes(1, "y")), size)); }},
      {"onnx", "functions",
       [](std::size_t size) {
         return model_with("", numbered(size, [](std::size_t i) { return field(25, Message().bytes(1, name_of(i))); }));
       }},
      {"onnx", "calls",
       [](std::size_t size) {
         const Message function =
             onnx_function("f", {"a"}, {"b"}, {onnx_node("Relu", {"a"}, {"r"}), onnx_node("Relu", {"r"}, {"b"})});
         return model_with(
             numbered(size,
                      [](std::size_t i) { return field(1, onnx_node("f", {"x"}, {name_of(i)}, {}, "", "local")); }),
             field(25, function));
       }},
      {"onnx", "nodes of several steps",
       [](std::size_t size) {
         return model_with(numbered(size, [](std::size_t i) {
           return field(1, onnx_node("Sum", {"x", "x", "x", "x"}, {name_of(i)}));
         }));
       }},
      {"onnx", "constants and their users",
       [](std::size_t size) {
         return model_with(numbered(size, [](std::size_t i) {
           const std::string constant = "c." + name_of(i);
           return field(5, onnx_tensor(constant, {1}, std::vector<float>{1})) +
                  field(1, onnx_node("Add", {"x", constant}, {name_of(i)}));
         }));
       }},
      {"onnx", "nodes with attributes",
       [](std::size_t size) {
         return model_with(numbered(size, [](std::size_t i) {
           return field(1, onnx_node("Elu", {"x"}, {name_of(i)}, {OnnxAttribute::of_float("alpha", 1)}));
         }));
       }},
      {"onnx", "opsets", [](std::size_t size) { return model_with("", repeated(field(8, Message()), size)); }},
      {"onnx", "branches",
       [](std::size_t size) {
         const Message branch =
             Message().message(1, onnx_node("Relu", {"x"}, {"z"})).message(12, Message().bytes(1, "z"));
         const Message many =
             Message()
                 .append(numbered(size, [](std::size_t i) { return field(1, onnx_node("Relu", {"x"}, {name_of(i)})); }))
                 .message(12, Message().bytes(1, "1"));
         return model_with(field(5, onnx_boolean("c", true)) +
                           field(1, onnx_node("If", {"c"}, {"z"},
                                              {OnnxAttribute::of_graph("then_branch", many),
                                               OnnxAttribute::of_graph("else_branch", branch)})));
       }},
      {"onnx", "indices that many nodes share",
       [](std::size_t size) {
         std::string parts = field(
             5,
             onnx_tensor_header("i", onnx_uint8, {static_cast<std::int64_t>(size)}).bytes(9, std::string(size, '\0')));
         for (std::size_t i = 1; i < 100; ++i) parts += field(1, onnx_node("Gather", {"x", "i"}, {name_of(i)}));
         return model_with(parts);
       }},
      {"onnx", "conditions that many nodes share",
       [](std::size_t size) {
         std::string parts = field(5, onnx_tensor_header("c", onnx_bool, {static_cast<std::int64_t>(size), 1})
                                          .bytes(9, std::string(size, '\0')));
         for (std::size_t i = 1; i < 100; ++i) parts += field(1, onnx_node("Where", {"c", "x", "x"}, {name_of(i)}));
         return model_with(parts);
       }},
  };
}

std::string safetensors_of(const std::string& header) {
  return little_endian(header.size(), 8) + header;
}

/// Members whose names are all that is theirs: they share one array.
std::string npz_of(std::size_t size) {
  const std::string array = npy_of<float>("<f4", {0}, {});
  const std::string checksum = little_endian(crc32_of(array), 4);
  const auto common = [&](std::size_t name_size) {
    return little_endian(20, 2) + little_endian(0, 8) + checksum + little_endian(array.size(), 4) +
           little_endian(array.size(), 4) + little_endian(name_size, 2) + little_endian(0, 2);
  };
  const std::string archive = "PK\x03\x04" + common(0) + array;
  std::size_t members = 0;
  const std::string directory = numbered(size, [&](std::size_t i) {
    const std::string name = std::to_string(i - 1) + ".relu._.npy";
    ++members;
    return "PK\x01\x02" + little_endian(20, 2) + common(name.size()) + little_endian(0, 14) + name;
  });
  const std::string zip64 = "PK\x06\x06" + little_endian(44, 8) + little_endian(45, 2) + little_endian(45, 2) +
                            little_endian(0, 8) + little_endian(members, 8) + little_endian(members, 8) +
                            little_endian(directory.size(), 8) + little_endian(archive.size(), 8);
  const std::string locator =
      "PK\x06\x07" + little_endian(0, 4) + little_endian(archive.size() + directory.size(), 8) + little_endian(1, 4);
  return archive + directory + zip64 + locator + "PK\x05\x06" + little_endian(0, 4) + std::string(12, '\xFF') +
         little_endian(0, 2);
}

std::vector<Swarm> other_swarms() {
  const auto header = [](const std::string& begin, const std::string& part, const std::string& end) {
    return [=](std::size_t size) { return safetensors_of(begin + repeated(part, size) + end); };
  };
  return {
      {"safetensors", "tensors",
       [](std::size_t size) {
         return safetensors_of("{" +
                               numbered(size,
                                        [](std::size_t i) {
                                          return "\"" + std::to_string(i) +
                                                 R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
                                        }) +
                               R"("z":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");
       }},
      {"safetensors", "numbers", header(R"({"a":[)", "1,", "1]}")},
      {"safetensors", "lists", header(R"({"a":[)", "[],", "1]}")},
      {"safetensors", "texts", header(R"({"a":[)", R"("",)", "1]}")},
      {"safetensors", "metadata",
       [](std::size_t size) {
         return safetensors_of(R"({"__metadata__":{)" +
                               numbered(size, [](std::size_t i) { return "\"" + std::to_string(i) + R"(":"",)"; }) +
                               R"("z":""}})");
       }},
      {"json", "numbers", [](std::size_t size) { return " {\"backend\":[" + repeated("1,", size) + "1]}"; }},
      {"csv", "numbers in rows", [](std::size_t size) { return repeated("1,2\n", size); }},
      {"csv", "comments and a header", [](std::size_t size) { return repeated("# 1 2 3\n", size) + "a,b\n1,2\n"; }},
      {"csv", "one row", [](std::size_t size) { return repeated("1,", size) + "1\n"; }},
      {"csv", "numbers between blanks", [](std::size_t size) { return repeated("1 ", size) + "1\n"; }},
      {"csv", "empty lines", [](std::size_t size) { return "1,2,3\n" + repeated("\n", size); }},
      {"zip", "members", npz_of},
  };
}

void check_memory(const std::vector<Swarm>& swarms) {
  std::vector<std::size_t> sizes = {megabyte / 5, 4 * megabyte};
  if (!test::under_sanitizers()) sizes.insert(sizes.end(), {megabyte / 2, megabyte, 16 * megabyte});
  for (const Swarm& swarm : swarms) {
    for (const std::size_t size : sizes) {
      const std::string file = swarm.of_size(size);
      CAPTURE(std::string(swarm.target));
      CAPTURE(std::string(swarm.name));
      CAPTURE(file.size());
      std::size_t peak = 0;
      CHECK_NOTHROW(peak = run_checked(find_target(swarm.target), std::as_bytes(std::span(file))));
      CHECK(peak >= file.size());
      CHECK(peak <= memory_limit(file.size()));
      if (size != 4 * megabyte || !test::process_memory_is_ours()) continue;
      const auto read = [&] { run_checked(find_target(swarm.target), std::as_bytes(std::span(file))); };
      CHECK(test::process_memory_of(read) <= memory_limit(file.size()));
    }
  }
}

std::size_t check_loads(const std::string& file) {
  const MemoryCount memory(memory_limit(file.size()));
  const auto bytes = std::as_bytes(std::span(file));
  const ModelDescription model = describe_onnx(MappedFile::holding({bytes.begin(), bytes.end()}), "no folder");
  CHECK(model.unsupported.empty());
  CHECK(memory.peak() <= memory_limit(file.size()));
  return model.graph.nodes.size();
}

}  // namespace

TEST_CASE("a chain of 30,000 named layers loads within 64 MiB and twice its size") {
  constexpr std::size_t length = 30'000;
  OnnxModel model(13);
  model.input("value_0", {1, 2}).initializer("one", {1}, std::vector<float>{1});
  for (std::size_t i = 1; i <= length; ++i) {
    const std::string number = std::to_string(i);
    model.node("Add", {"value_" + std::to_string(i - 1), "one"}, "value_" + number, {}, "/layer_" + number + "/Add");
  }
  CHECK(check_loads(model.output("value_" + std::to_string(length)).bytes()) == length);
}

TEST_CASE("8 million float16 weights written as numbers load within 64 MiB and twice their size") {
  constexpr std::int64_t elements = 8'000'000;
  const std::string weights = repeated("\x80\xF8\x02", 3 * elements);  // 0xBC00 is -1
  OnnxModel model(13);
  model.input("x", {1}, onnx_float16)
      .initializer(onnx_tensor_header("w", onnx_float16, {elements}).bytes(5, weights))
      .node("Add", {"x", "w"}, "y")
      .output("y");
  CHECK(check_loads(model.bytes()) == 1);
}

TEST_CASE("tables of more numbers than the size of their text justifies are refused before memory is taken") {
  const std::string text = repeated("1,", 40 * megabyte) + "1\n";
  const MemoryCount memory(megabyte);
  CHECK_THROWS_WITH_AS(
      parse_csv(text, "table.csv"),
      "table.csv: 20000001 numbers of 8 bytes, a text of this size may have 13126464; store the samples "
      "as .npy",
      Unsupported);
  CHECK(memory.peak() < megabyte);
}

TEST_CASE("ONNX files of megabytes of tiny parts take 64 MiB and twice their size at most") {
  check_memory(onnx_swarms());
}

TEST_CASE("other files of megabytes of tiny parts take 64 MiB and twice their size at most") {
  check_memory(other_swarms());
}
