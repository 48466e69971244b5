#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "driftbound/model/row_reader.hpp"
#include "driftbound/num/errors.hpp"
#include "support/npy_writer.hpp"
#include "support/process_memory.hpp"
#include "support/temporary_folder.hpp"

using namespace driftbound;
using namespace driftbound::test;

namespace {

std::vector<double> rows_of(const RowReader& reader, std::int64_t first, std::int64_t count) {
  std::vector<double> rows(static_cast<std::size_t>(count * reader.columns()));
  reader.read(first, count, rows);
  return rows;
}

}  // namespace

TEST_CASE("rows are read in any order of storage, byte order and float type") {
  const TemporaryFolder folder;
  const std::vector<double> c_order = {1.5, -2, 3, 4, 0.25, 6, 7, 8, -9, 10, 11, 12};  // 4 x 3
  const std::vector<double> f_order = {1.5, 4, 7, 10, -2, 0.25, 8, 11, 3, 6, -9, 12};
  const std::string big = [&] {
    std::string raw = raw_bytes(c_order);
    for (std::size_t i = 0; i < raw.size(); i += 8) std::reverse(raw.data() + i, raw.data() + i + 8);
    return npy_with_header(npy_header(">f8", {4, 3}), raw, 2);
  }();
  const std::vector<float> floats(c_order.begin(), c_order.end());
  const std::vector<std::string> files = {npy_of("<f8", {4, 3}, c_order), npy_of("<f8", {4, 3}, f_order, true), big,
                                          npy_of("<f4", {4, 3}, floats)};
  for (std::size_t i = 0; i < files.size(); ++i) {
    CAPTURE(i);
    const RowReader reader(folder.write(std::to_string(i) + ".npy", files[i]));
    CHECK(reader.rows() == 4);
    CHECK(reader.columns() == 3);
    CHECK(rows_of(reader, 0, 4) == c_order);
    CHECK(rows_of(reader, 1, 2) == std::vector<double>(c_order.begin() + 3, c_order.begin() + 9));
    CHECK(rows_of(reader, 4, 0).empty());
  }
  CHECK(RowReader(folder.path() / "3.npy").type() == ElementType::f32);
  const RowReader cube(folder.write("cube.npy", npy_of<double>("<f8", {2, 2, 2}, {0, 4, 2, 6, 1, 5, 3, 7}, true)));
  CHECK(rows_of(cube, 1, 1) == std::vector<double>{4, 5, 6, 7});
  const RowReader list(folder.write("list.npy", npy_of<double>("<f8", {3}, {1, 2, 3})));
  CHECK(rows_of(list, 1, 2) == std::vector<double>{2, 3});
}

TEST_CASE("what is no array of rows of floats is refused, and so are rows that there are not") {
  const TemporaryFolder folder;
  const auto open = [&](const std::string& bytes) { return RowReader(folder.write("x.npy", bytes)); };
  CHECK_THROWS_AS(RowReader(folder.path() / "none.npy"), FileError);
  CHECK_THROWS_AS(RowReader{folder.path()}, FileError);
  CHECK_THROWS_AS(open("PK"), ParseError);
  CHECK_THROWS_AS(open(npy_of<std::int64_t>("<i8", {2, 2}, {1, 2, 3, 4})), Unsupported);
  CHECK_THROWS_AS(open(npy_of<double>("<f8", {}, {1})), ShapeMismatch);
  CHECK_THROWS_AS(open(npy_of<double>("<f8", {2, 2}, {1, 2, 3})), ParseError);
  CHECK_THROWS_AS(open(npy_of<double>("<f8", {2, 2}, {1, 2, 3, 4, 5})), ParseError);
  const RowReader reader = open(npy_of<double>("<f8", {2, 2}, {1, 2, 3, 4}));
  std::vector<double> room(4);
  CHECK_THROWS_AS(reader.read(1, 2, room), InvalidArgument);
  CHECK_THROWS_AS(reader.read(-1, 2, room), InvalidArgument);
  CHECK_THROWS_AS(reader.read(0, 1, room), InvalidArgument);
}

TEST_CASE("reading a file of a hundred million points takes the memory of the points asked for") {
  if (!process_memory_is_ours()) return;
  const TemporaryFolder folder;
  constexpr std::int64_t points = 100'000'000, block = 1 << 16;
  const auto file = folder.write("large.npy", npy_with_header(npy_header("<f4", {points, 3}), ""));
  std::filesystem::resize_file(file,
                               std::filesystem::file_size(file) + points * 12);  // a hole: zeros that take no disk
  const std::size_t memory = process_memory_of([&] {
    const RowReader reader(file);
    std::vector<double> rows(block * 3);
    for (std::int64_t first = 0; first + block <= points; first += 16 * block) reader.read(first, block, rows);
    if (rows != std::vector<double>(block * 3)) throw 1;
  });
  CHECK(memory < std::size_t{16} << 20);
}
