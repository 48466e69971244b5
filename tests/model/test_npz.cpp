#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "support/hostile.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

/// numpy.savez_compressed(file, x=numpy.tile(numpy.float32([1, 2]), 32)), NumPy 1.24
const std::string compressed = from_hex(
    "504b030414000000080000002100153394f0500000008001000005001400782e6e707901001000800100000000000050000000000000009bec"
    "17ea"
    "1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416a402f91a66263a9a"
    "3a0a"
    "b50ae4032e0686067b06060687914a0300504b0102140314000000080000002100153394f05000000080010000050000000000000000000000"
    "8001"
    "00000000782e6e7079504b0506000000000100010033000000870000000000");

}  // namespace

TEST_CASE("members of a stored archive are read by name") {
  const TemporaryFolder folder;
  const auto file = folder.write("a.npz", zip_of({{"w.npy", npy_of<double>("<f8", {2}, {1.5, 2.5})},
                                                  {"readme.txt", "no array"},
                                                  {"n.npy", npy_of<std::int64_t>("<i8", {}, {7})}}));
  const NamedTensors tensors = read_npz(file);
  REQUIRE(tensors.size() == 2);
  CHECK(tensors[0].first == "w");
  CHECK(tensors[0].second.to_double().values == std::vector<double>{1.5, 2.5});
  CHECK(tensors[1].first == "n");
  CHECK(tensors[1].second.to_int64().values == std::vector<std::int64_t>{7});
}

TEST_CASE("a compressed archive of NumPy is read") {
  const TemporaryFolder folder;
  const NamedTensors tensors = read_npz(folder.write("c.npz", compressed));
  REQUIRE(tensors.size() == 1);
  CHECK(tensors[0].second.shape() == Shape{64});
  CHECK(tensors[0].second.to_double().values[63] == 2.0);
}

TEST_CASE("a member that holds more or less than its header says is refused") {
  const TemporaryFolder folder;
  const std::string array = npy_of<float>("<f4", {4}, {1, 2, 3, 4});
  CHECK_THROWS_AS(read_npz(folder.write("long.npz", zip_of({{"x.npy", array + std::string(5'000'000, '\0')}}))),
                  ParseError);
  CHECK_THROWS_AS(read_npz(folder.write("short.npz", zip_of({{"x.npy", array.substr(0, array.size() - 1)}}))),
                  ParseError);
}

TEST_CASE("an archive that claims more than 48 MiB and twice its size is refused before memory is taken") {
  const TemporaryFolder folder;
  for (const std::int64_t claimed : {std::int64_t{1} << 40, std::int64_t{6'300'000}}) {
    const std::string large = npy_with_header(npy_header("<f8", {claimed}), "");
    CHECK_THROWS_AS(read_npz(folder.write("large.npz", zip_of({{"x.npy", large}}))), Unsupported);
  }
  const std::string swapped = npy_with_header(npy_header(">f8", {3'200'000}), "");  // needs room for two
  CHECK_THROWS_AS(read_npz(folder.write("swapped.npz", zip_of({{"x.npy", swapped}}))), Unsupported);
}

TEST_CASE("an archive that is not packed is read whatever its size") {
  const TemporaryFolder folder;
  const std::string large = npy_of<float>("<f4", {4'000, 4'000}, std::vector<float>(16'000'000));
  CHECK(read_npz(folder.write("large.npz", zip_of({{"x.npy", large}})))[0].second.size() == 16'000'000);
}

TEST_CASE("archives cut short anywhere, or with any byte wrong, do no harm") {
  const TemporaryFolder folder;
  const std::string stored = zip_of({{"x.npy", npy_of<float>("<f4", {4}, {1, 2, 3, 4})}});
  for (const std::string& good : {stored, compressed}) {
    for (std::size_t length = 0; length < good.size(); ++length) {
      CAPTURE(length);
      CHECK_THROWS_AS(read_npz(write_anew(folder, "cut.npz", good.substr(0, length))), ParseError);
    }
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 0x55);
      const auto file = write_anew(folder, "bad.npz", bad);
      CHECK(refuses_or([&] { return read_npz(file).size() <= 1; }));
    }
  }
}
