#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/safetensors.hpp"
#include "support/hostile.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

std::string safetensors_of(const std::string& header, const std::string& data) {
  return little_endian(header.size(), 8) + header + data;
}

const std::string one_float = R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";

}  // namespace

TEST_CASE("tensors and metadata survive a .safetensors file bit for bit, each aligned to its elements") {
  const TemporaryFolder folder;
  const StoredTensor bytes(ElementType::u8, {3}, std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{3}});
  const StoredTensor doubles = StoredTensor::from(Tensor<double>({2}, {0.1, -0.0}));
  const StoredTensor floats = StoredTensor::from(Tensor<float>({1, 1}, {0.1f}));
  const StoredTensor empty = StoredTensor::from(Tensor<float>({0, 4}, {}));
  write_safetensors(folder / "t.safetensors",
                    {{"bytes", &bytes}, {"doubles", &doubles}, {"floats", &floats}, {"empty", &empty}},
                    {{"key", "value \"quoted\" ü"}});

  const SafetensorsFile file(folder / "t.safetensors");

  CHECK(file.names().size() == 4);
  CHECK(file.metadata().at("key") == "value \"quoted\" ü");
  CHECK(file.tensor("bytes").identical(bytes));
  CHECK(file.tensor("doubles").identical(doubles));
  CHECK(file.tensor("floats").identical(floats));
  CHECK(file.tensor("empty").identical(empty));
  CHECK(reinterpret_cast<std::uintptr_t>(file.tensor("doubles").bytes().data()) % 8 == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(file.tensor("floats").bytes().data()) % 4 == 0);
}

TEST_CASE("a file that cannot be written whole leaves nothing behind") {
  const TemporaryFolder folder;
  const StoredTensor tensor = StoredTensor::from(Tensor<float>({1}, {1.0f}));
  CHECK_THROWS_AS(write_safetensors(folder / "no/such/folder/t.safetensors", {{"x", &tensor}}, {}), FileError);
  CHECK_THROWS_AS(write_safetensors(folder.path(), {{"x", &tensor}}, {}), FileError);
  CHECK_THROWS_AS(write_safetensors("/dev/full", {{"x", &tensor}}, {}), FileError);
  write_safetensors(folder / "t", {{"x", &tensor}}, {});
  write_safetensors(folder / "t", {{"x", &tensor}}, {});
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("headers that lie are refused") {
  const TemporaryFolder folder;
  const std::string data(4, '\0');
  const auto open = [&](const std::string& header) {
    return SafetensorsFile(folder.write("t", safetensors_of(header, data)));
  };
  CHECK(open(one_float).tensor("x").size() == 1);
  for (
      const std::string header : {
          R"([])",
          R"({"x":1})",
          R"({"x":{"shape":[1],"data_offsets":[0,4]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551615]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})",
          R"({"x":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})",
          R"({"x":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})",
          R"({"x":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})",
          R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
          R"({"__metadata__":{"a":1}})",
          R"({"__metadata__":"a"})",
      }) {
    CAPTURE(header);
    CHECK_THROWS_AS(open(header), ParseError);
  }
  for (const std::string shape : {"[2]", "[]", "[1,0]", "[4611686018427387904,4]", "[4294967296,4294967296]"}) {
    CAPTURE(shape);
    const SafetensorsFile file = open(R"({"x":{"dtype":"F16","shape":)" + shape + R"(,"data_offsets":[0,0]}})");
    if (shape != "[1,0]") CHECK_THROWS_AS(file.tensor("x"), ShapeMismatch);
  }
  CHECK_THROWS_AS(open(R"({"x":{"dtype":"F8_E4M3","shape":[4],"data_offsets":[0,4]}})").tensor("x"), Unsupported);
}

TEST_CASE("a .safetensors file cut short anywhere, or with any byte wrong, does no harm") {
  const TemporaryFolder folder;
  const std::string good = safetensors_of(one_float, std::string(4, '\1'));
  for (std::size_t length = 0; length < good.size(); ++length) {
    CHECK_THROWS_AS(SafetensorsFile(write_anew(folder, "t", good.substr(0, length))), ParseError);
  }
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 34, 57, 91, 123, 128, 255}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      CHECK(refuses_or([&] {
        const SafetensorsFile file(write_anew(folder, "t", bad));
        return file.names().empty() || file.tensor(file.names()[0]).bytes().size() <= 4;
      }));
    }
  }
  CHECK_THROWS_AS(SafetensorsFile(folder.write("t", safetensors_of(std::string(1'000'000, '['), ""))), ParseError);
}
