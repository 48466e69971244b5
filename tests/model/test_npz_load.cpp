#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "driftbound/model/load.hpp"
#include "driftbound/num/errors.hpp"
#include "support/hostile.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"
#include "support/text.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

using Members = std::vector<std::pair<std::string, std::string>>;

const std::string nothing = npy_of<float>("<f4", {0}, {});

std::string floats(const std::vector<std::int64_t>& shape) {
  return npy_of<float>("<f4", shape, std::vector<float>(static_cast<std::size_t>(element_count(shape)), 0.5f));
}

Members small_dump() {
  return {{"0000.dense.A.npy", floats({3, 4})},
          {"0000.dense.b.npy", floats({4})},
          {"0001.elu._.npy", nothing},
          {"0002.dense.A.npy", floats({4, 1})},
          {"0003.squeeze_last._.npy", nothing}};
}

Graph loaded(const Members& members) {
  const TemporaryFolder folder;
  return load_model(folder.write("m.npz", zip_of(members)));
}

template <class Exception>
std::string error_of(const Members& members) {
  try {
    loaded(members);
  } catch (const Exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a dump of layers becomes a chain of them") {
  const Graph graph = loaded(small_dump());
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.nodes[0].name == "0000.dense");
  CHECK(graph.nodes[0].inputs.size() == 3);
  CHECK(std::holds_alternative<op::Gemm>(graph.nodes[0].op));
  CHECK(graph.nodes[1].name == "0001.elu");
  CHECK(std::get<op::Elu>(graph.nodes[1].op).alpha == 1.0);
  CHECK(graph.nodes[2].inputs.size() == 2);
  CHECK(std::get<op::Squeeze>(graph.nodes[3].op).axes == std::vector<std::int64_t>{-1});
  CHECK(graph.value(graph.inputs[0]).name == "x");
  const BatchLayout layout = batch_layout(graph);
  CHECK(layout.batched);
  CHECK(layout.sample_shapes[0] == Shape{1, 3});
  CHECK(graph.parameter_count() == 20);
  CHECK(infer_shapes(graph, {{5, 3}}).at(graph.outputs[0]) == Shape{5});
}

TEST_CASE("the order of the layers is that of their numbers, not that of the file") {
  Members members = small_dump();
  std::reverse(members.begin(), members.end());
  CHECK(loaded(members).nodes[0].name == "0000.dense");
}

TEST_CASE("layers this version does not have are listed") {
  Members members = small_dump();
  members.push_back({"0004.pow2_frequency_encode.coefs.npy", floats({3})});
  members.push_back({"0005.gelu._.npy", nothing});
  const std::string message = error_of<Unsupported>(members);
  CHECK(contains(message, "pow2_frequency_encode"));
  CHECK(contains(message, "0005.gelu"));
}

TEST_CASE("dumps that contradict themselves say where") {
  const auto with = [](const std::string& name, const std::string& data) {
    Members members = small_dump();
    for (auto& member : members) {
      if (member.first == name) {
        member.second = data;
        return members;
      }
    }
    members.emplace_back(name, data);
    return members;
  };
  CHECK(contains(error_of<ShapeMismatch>(with("0002.dense.A.npy", floats({5, 1}))), "0002.dense"));
  CHECK(contains(error_of<ShapeMismatch>(with("0000.dense.b.npy", floats({3}))), "0000.dense.b"));
  CHECK(contains(error_of<ShapeMismatch>(with("0000.dense.A.npy", floats({12}))), "0000.dense.A"));
  CHECK(contains(error_of<ShapeMismatch>(with("0000.dense.A.npy", npy_of<std::int64_t>("<i8", {1, 1}, {1}))), "int64"));
  CHECK(contains(error_of<ParseError>(with("0000.dense.c.npy", floats({3}))), "'c'"));
  CHECK(contains(error_of<ParseError>(with("0001.relu._.npy", nothing)), "layer 1"));
  CHECK(contains(error_of<ParseError>(with("0005.relu._.npy", nothing)), "layer 4"));
  CHECK(contains(error_of<ParseError>(with("arr_0.npy", nothing)), "arr_0"));
  CHECK(contains(error_of<ParseError>({{"0000.relu._.npy", nothing}}), "dense"));
  CHECK(contains(error_of<ParseError>({{"readme.txt", ""}}), "no layers"));
  CHECK(contains(error_of<ParseError>({{"0000.dense.b.npy", floats({3})}}), "0000.dense"));
  CHECK(contains(error_of<ShapeMismatch>({{"0000.dense.A.npy", floats({3, 4})}, {"0001.squeeze_last._.npy", nothing}}),
                 "m.npz"));
}

TEST_CASE("a dump cut short anywhere, or with any byte wrong, does no harm") {
  const TemporaryFolder folder;
  const std::string good = zip_of(small_dump());
  for (std::size_t length = 0; length < good.size(); length += 5) {
    CHECK_THROWS_AS(load_model(write_anew(folder, "cut.npz", good.substr(0, length))), Error);
  }
  for (std::size_t at = 0; at < good.size(); at += 3) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x24);
    const auto file = write_anew(folder, "bad.npz", bad);
    CHECK(refuses_or([&] { return load_model(file).nodes.size() <= 4; }));
  }
}
