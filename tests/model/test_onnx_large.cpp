#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "support/load_errors.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

constexpr std::uint64_t gibibyte = std::uint64_t{1} << 30;

/// Makes a file longer by a hole, which takes no room on disk where the file system knows holes. Says so where it
/// cannot.
bool add_hole(const std::filesystem::path& file, std::uint64_t bytes) {
  std::error_code error;
  const auto room = std::filesystem::space(file, error).available;
  if (!error && room > bytes + gibibyte)
    std::filesystem::resize_file(file, std::filesystem::file_size(file) + bytes, error);
  const bool done = !error && room > bytes + gibibyte;
  if (!done) MESSAGE("skipped: no room for a file of " << bytes << " bytes");
  return done;
}

void append(const std::filesystem::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary | std::ios::app) << bytes;
}

std::string tag_and_length(int field, std::uint64_t length) {
  Message message;
  message.tag(field, 2);
  message.raw_varint(length);
  return message.data();
}

}  // namespace

TEST_CASE("a model beyond 2 GiB, and one beyond 4 GiB, load with what lies at their end") {
  for (const std::uint64_t hole : {2 * gibibyte + 4096, 4 * gibibyte + 4096}) {
    const TemporaryFolder folder;
    const Message tensor_header = onnx_tensor_header("huge", onnx_uint8, {static_cast<std::int64_t>(hole)});
    const std::string data_header = tag_and_length(9, hole);
    const std::uint64_t tensor_bytes = tensor_header.data().size() + data_header.size() + hole;
    const std::string initializer_header = tag_and_length(5, tensor_bytes);
    OnnxModel rest;
    rest.input("x", {2}).initializer("c", {2}, std::vector<float>{3, 4}).node("Add", {"x", "c"}, "y").output("y");
    const std::uint64_t graph_bytes = initializer_header.size() + tensor_bytes + rest.graph().data().size();

    const auto file = folder.write("m.onnx", Message().varint(1, 8).data() + tag_and_length(7, graph_bytes) +
                                                 initializer_header + tensor_header.data() + data_header);
    if (!add_hole(file, hole)) return;
    append(file, rest.graph().data() + Message().message(8, Message().bytes(1, "").varint(2, 13)).data());
    const Graph graph = load_model(file);
    REQUIRE(graph.nodes.size() == 1);
    CHECK(graph.value(graph.nodes[0].inputs[1]).constant.to_double().values == std::vector<double>{3, 4});

    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 100);
    CHECK(contains(load_error<ParseError>(file), "truncated"));
  }
}

TEST_CASE("weights at the end of a data file beyond 4 GiB load") {
  const TemporaryFolder folder;
  const auto data = folder.write("w.bin", "");
  if (!add_hole(data, 4 * gibibyte + 4096)) return;
  const std::string offset = std::to_string(std::filesystem::file_size(data));
  const float values[] = {3, 4};
  append(data, std::string(reinterpret_cast<const char*>(values), sizeof values));
  OnnxModel model;
  model.input("x", {2})
      .initializer(onnx_external_tensor("c", onnx_float, {2}, {{"location", "w.bin"}, {"offset", offset}}))
      .node("Add", {"x", "c"}, "y")
      .output("y");
  const Graph graph = load_model(model.save(folder / "m.onnx"));
  CHECK(graph.value(graph.nodes.at(0).inputs[1]).constant.to_double().values == std::vector<double>{3, 4});
}
