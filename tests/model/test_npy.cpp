#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "model/array_files.hpp"
#include "support/hostile.hpp"
#include "support/npy_reader.hpp"
#include "support/npy_writer.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

StoredTensor parsed(const std::string& file) {
  const auto owner = std::make_shared<const std::string>(file);
  return parse_npy(std::as_bytes(std::span(*owner)), owner, "array.npy");
}

}  // namespace

TEST_CASE("a C-ordered array is read as it is stored") {
  const std::string file = npy_of<float>("<f4", {2, 3}, {1.5f, -0.0f, 3e-45f, 4.0f, 5.0f, 6.0f});
  const StoredTensor tensor = parsed(file);
  CHECK(tensor.type() == ElementType::f32);
  CHECK(tensor.shape() == Shape{2, 3});
  CHECK(tensor.to_double().values == std::vector<double>{1.5, -0.0, static_cast<double>(3e-45f), 4.0, 5.0, 6.0});
}

TEST_CASE("a Fortran-ordered array is rearranged to rows") {
  const StoredTensor tensor = parsed(npy_of<double>("<f8", {2, 3}, {11, 21, 12, 22, 13, 23}, true));
  CHECK(tensor.to_double().values == std::vector<double>{11, 12, 13, 21, 22, 23});
  const StoredTensor cube = parsed(npy_of<double>("<f8", {2, 1, 2}, {1, 2, 3, 4}, true));
  CHECK(cube.to_double().values == std::vector<double>{1, 3, 2, 4});
  CHECK(parsed(npy_of<double>("<f8", {0, 3}, {}, true)).size() == 0);
}

TEST_CASE("both byte orders give the same numbers") {
  const std::string little("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
  const std::string big("\x3f\xc0\x00\x00\xc0\x00\x00\x00", 8);
  const StoredTensor a = parsed(npy_with_header(npy_header("<f4", {2}), little));
  const StoredTensor b = parsed(npy_with_header(npy_header(">f4", {2}), big));
  CHECK(a.identical(b));
  CHECK(a.to_double().values == std::vector<double>{1.5, -2.0});
}

TEST_CASE("every NumPy type that has a tensor type keeps it") {
  const std::array<std::pair<const char*, ElementType>, 12> types = {{{"<f8", ElementType::f64},
                                                                      {"<f4", ElementType::f32},
                                                                      {"<f2", ElementType::f16},
                                                                      {"<i8", ElementType::i64},
                                                                      {"<i4", ElementType::i32},
                                                                      {"<i2", ElementType::i16},
                                                                      {"|i1", ElementType::i8},
                                                                      {"<u8", ElementType::u64},
                                                                      {"<u4", ElementType::u32},
                                                                      {"<u2", ElementType::u16},
                                                                      {"|u1", ElementType::u8},
                                                                      {"|b1", ElementType::boolean}}};
  for (const auto& entry : types) {
    const auto& descr = entry.first;
    const ElementType type = entry.second;
    CAPTURE(descr);
    const StoredTensor tensor =
        parsed(npy_with_header(npy_header(descr, {3}), std::string(3 * bytes_per_element(type), '\1')));
    CHECK(tensor.type() == type);
    CHECK(tensor.size() == 3);
  }
}

TEST_CASE("header details that NumPy writes are understood") {
  const std::string one = raw_bytes(std::vector<double>{7.0});
  CHECK(parsed(npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (), }", one)).shape().empty());
  CHECK(parsed(npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", one)).shape() == Shape{1});
  CHECK(parsed(npy_with_header("{'shape': (1, 1), 'fortran_order': True, 'descr': '<f8'}", one)).shape() ==
        Shape{1, 1});
  CHECK(parsed(npy_with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1L,), }", one)).shape() == Shape{1});
  CHECK(parsed(npy_with_header("{\"descr\": \"<f8\", 'fortran_order':False,'shape':(1,)}", one)).shape() == Shape{1});
  for (const int version : {1, 2, 3}) {
    CHECK(parsed(npy_with_header(npy_header("<f8", {1}), one, version)).to_double().values[0] == 7.0);
  }
}

TEST_CASE("types without a tensor type say what to do instead") {
  const std::string data(64, '\0');
  for (const std::string descr : {"<f16", "<c8", "|O", "|V2", "<U3", "<M8[ns]", ""}) {
    CAPTURE(descr);
    CHECK_THROWS_AS(parsed(npy_with_header(npy_header(descr, {1}), data)), Unsupported);
  }
  CHECK_THROWS_AS(parsed(npy_with_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", data)),
                  Unsupported);
}

TEST_CASE("broken headers are ParseErrors") {
  const std::string data(8, '\0');
  for (const std::string header : {"", "{", "{}", "{'descr': '<f8', 'fortran_order': False}",
                                   "{'descr': '<f8', 'fortran_order': No, 'shape': (1,)}",
                                   "{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
                                   "{'descr': '<f8', 'fortran_order': False, 'shape': (1",
                                   "{'descr': '<f8', 'fortran_order': False, 'shape': (1,)} x",
                                   "{'descr': '<f8, 'fortran_order': False, 'shape': (1,)}",
                                   "{'descr': '<f8', 'fortran_order': False, 'shape': (1,), 'more': 1}",
                                   "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999999999,)}"}) {
    CAPTURE(header);
    CHECK_THROWS_AS(parsed(npy_with_header(header, data)), ParseError);
  }
}

TEST_CASE("absurd shapes are refused before memory is taken") {
  const std::string data(8, '\0');
  CHECK_THROWS_AS(parsed(npy_with_header(npy_header("<f8", {1'000'000'000, 1'000'000'000, 1'000'000'000}), data)),
                  ShapeMismatch);
  CHECK_THROWS_AS(parsed(npy_with_header(npy_header("<f8", {std::int64_t{1} << 61}), data)), ShapeMismatch);
  CHECK_THROWS_AS(parsed(npy_with_header(npy_header("<f8", {std::int64_t{1} << 50}), data)), ParseError);
  CHECK_THROWS_AS(parsed(npy_with_header(npy_header("<f8", std::vector<std::int64_t>(65, 1)), data)), ParseError);
}

TEST_CASE("an array cut short anywhere, or too long, is a ParseError") {
  const std::string good = npy_of<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::size_t length = 0; length < good.size(); ++length) {
    CAPTURE(length);
    CHECK_THROWS_AS(parsed(good.substr(0, length)), ParseError);
  }
  CHECK_THROWS_AS(parsed(good + "x"), ParseError);
}

TEST_CASE("any byte of an array may be wrong without harm") {
  const std::string good = npy_of<float>("<f4", {2, 3}, {1, 2, 3, 4, 5, 6});
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int value : {0, 1, 39, 57, 127, 128, 255}) {
      std::string bad = good;
      bad[at] = static_cast<char>(value);
      CHECK(refuses_or([&] { return parsed(bad).bytes().size() <= bad.size(); }));
    }
  }
}

TEST_CASE("a file that cannot be read is a FileError") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(npy_of_file(folder / "missing.npy"), FileError);
  CHECK_THROWS_AS(npy_of_file(folder.path()), FileError);
  CHECK_THROWS_AS(npy_of_file("/dev/null"), FileError);
  CHECK_THROWS_AS(npy_of_file(folder.write("empty.npy", "")), ParseError);
  CHECK(npy_of_file(folder.write("a.npy", npy_of<double>("<f8", {1}, {2.5}))).to_double().values[0] == 2.5);
}
