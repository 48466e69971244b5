#include "analysis/volume.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "driftbound/evaluate/evaluator.hpp"

namespace driftbound::analysis {
namespace {

static_assert(std::endian::native == std::endian::little, "arrays are written as they lie in memory");

/// Arrays after one another, each after its number of bytes, as VTK reads appended data.
class AppendedArrays {
public:
  template <class Element>
  std::string add(const char* type, const char* name, const std::vector<Element>& elements) {
    const std::string tag = fmt::format("<DataArray type=\"{}\" Name=\"{}\" format=\"appended\" offset=\"{}\"/>\n",
                                        type, name, bytes_.size());
    const std::uint64_t size = elements.size() * sizeof(Element);
    char header[sizeof size];
    std::memcpy(header, &size, sizeof size);
    bytes_.append(header, sizeof size);
    bytes_.append(reinterpret_cast<const char*>(elements.data()), size);
    return tag;
  }
  const std::string& bytes() const { return bytes_; }

private:
  std::string bytes_;
};

/// VTK has the first coordinate running fastest.
template <class Element>
std::vector<Element> reordered(const Volume& volume, const std::vector<Element>& elements) {
  std::vector<Element> result;
  result.reserve(elements.size());
  const auto& [nx, ny, nz] = volume.extents;
  for (std::int64_t k = 0; k < nz; ++k)
    for (std::int64_t j = 0; j < ny; ++j)
      for (std::int64_t i = 0; i < nx; ++i) result.push_back(elements[static_cast<std::size_t>((i * ny + j) * nz + k)]);
  return result;
}

/// The sign of all corners of every cell.
std::vector<std::int8_t> signs_of_corners(const Volume& volume) {
  constexpr auto undecided = static_cast<std::int8_t>(Sign::undecided);
  std::vector<std::int8_t> cells;
  const auto& [nx, ny, nz] = volume.extents;
  const auto at = [&](std::int64_t i, std::int64_t j, std::int64_t k) {
    return volume.signs[static_cast<std::size_t>((i * ny + j) * nz + k)];
  };
  for (std::int64_t k = 0; k + 1 < nz; ++k)
    for (std::int64_t j = 0; j + 1 < ny; ++j)
      for (std::int64_t i = 0; i + 1 < nx; ++i) {
        std::int8_t all = at(i, j, k);
        for (int corner = 1; corner < 8; ++corner) {
          const std::int8_t here = at(i + (corner & 1), j + (corner >> 1 & 1), k + (corner >> 2));
          if (here == undecided) all = undecided;
          if (all != undecided && here != all) all = 0;
        }
        cells.push_back(all);
      }
  return cells;
}

std::vector<std::int8_t> states_of_cells(const Volume& volume, const std::vector<std::int8_t>& corners) {
  std::vector<std::int8_t> states;
  for (std::size_t i = 0; i < corners.size(); ++i) {
    const std::int8_t all_over = volume.cell_signs.empty() ? std::int8_t{0} : volume.cell_signs[i];
    states.push_back(all_over != 0 || corners[i] == 0 ? all_over : static_cast<std::int8_t>(Sign::undecided));
  }
  return states;
}

using Place = std::array<std::int64_t, 3>;

/// Cells [first, last).
struct CellBlock {
  Place first, last;
  bool is_cell() const { return last[0] - first[0] == 1 && last[1] - first[1] == 1 && last[2] - first[2] == 1; }
};

void halve(const CellBlock& block, std::vector<CellBlock>& parts) {
  const auto extent = [&](std::size_t c) { return block.last[c] - block.first[c]; };
  std::size_t longest = 0;
  for (std::size_t c = 1; c < 3; ++c)
    if (extent(c) > extent(longest)) longest = c;
  CellBlock lower = block, upper = block;
  lower.last[longest] = upper.first[longest] = block.first[longest] + extent(longest) / 2;
  parts.push_back(lower);
  parts.push_back(upper);
}

/// Coordinates of the points of a grid.
std::array<std::vector<double>, 3> coordinates_of(const Volume& volume, const PointSource& points) {
  const Place strides = {volume.extents[1] * volume.extents[2], volume.extents[2], 1};
  std::array<std::vector<double>, 3> coordinates;
  for (std::size_t c = 0; c < 3; ++c)
    for (std::int64_t i = 0; i < volume.extents[c]; ++i) {
      std::array<double, 3> point{};
      points.read(i * strides[c], 1, point);
      coordinates[c].push_back(point[c]);
    }
  return coordinates;
}

/// Of a point, by its number.
Place place_of(const Volume& volume, std::int64_t row) {
  const auto& [nx, ny, nz] = volume.extents;
  return {row / (ny * nz), row / nz % ny, row % nz};
}

/// Whether a point is a corner of a cell whose sign is not known.
bool is_at_unknown_cell(const Volume& volume, const Place& place) {
  const Place cells = {volume.extents[0] - 1, volume.extents[1] - 1, volume.extents[2] - 1};
  const auto from = [&](std::size_t c) { return std::max(place[c] - 1, std::int64_t{0}); };
  const auto to = [&](std::size_t c) { return std::min(place[c], cells[c] - 1); };
  for (std::int64_t k = from(2); k <= to(2); ++k)
    for (std::int64_t j = from(1); j <= to(1); ++j)
      for (std::int64_t i = from(0); i <= to(0); ++i)
        if (volume.cell_signs[static_cast<std::size_t>((k * cells[1] + j) * cells[0] + i)] == 0) return true;
  return false;
}

}  // namespace

void find_cell_signs(Volume& volume, const PointSource& points, const RegionEvaluator& evaluator, const Octree* octree,
                     const std::function<bool()>& goes_on) {
  constexpr std::size_t blocks_at_once = 16384;
  const auto coordinates = coordinates_of(volume, points);
  const Place cells = {volume.extents[0] - 1, volume.extents[1] - 1, volume.extents[2] - 1};
  volume.cell_signs.assign(static_cast<std::size_t>(cells[0] * cells[1] * cells[2]), 0);
  const auto set = [&](const CellBlock& block, std::int8_t sign) {
    for (std::int64_t k = block.first[2]; k < block.last[2]; ++k)
      for (std::int64_t j = block.first[1]; j < block.last[1]; ++j)
        for (std::int64_t i = block.first[0]; i < block.last[0]; ++i)
          volume.cell_signs[static_cast<std::size_t>((k * cells[1] + j) * cells[0] + i)] = sign;
  };
  std::vector<CellBlock> open = {{{0, 0, 0}, cells}};
  while (!open.empty()) {
    if (!goes_on()) throw Interrupted("interrupted");
    const std::size_t count = std::min(open.size(), blocks_at_once);
    const std::vector<CellBlock> some(open.end() - static_cast<std::ptrdiff_t>(count), open.end());
    open.resize(open.size() - count);
    std::vector<CellBlock> enclosed;
    Boxes boxes{.dimension = 3, .lower = {}, .upper = {}};
    for (const CellBlock& block : some) {
      Box box{std::vector<double>(3), std::vector<double>(3)};
      for (std::size_t c = 0; c < 3; ++c) {
        box.lower[c] = coordinates[c][static_cast<std::size_t>(block.first[c])];
        box.upper[c] = coordinates[c][static_cast<std::size_t>(block.last[c])];
      }
      const RegionSign by_tree = octree != nullptr ? octree->sign_over(box) : RegionSign::unknown;
      if (by_tree != RegionSign::unknown) {
        set(block, static_cast<std::int8_t>(by_tree));
        continue;
      }
      enclosed.push_back(block);
      boxes.add(box.lower, box.upper);
    }
    const Ranges ranges = evaluator.ranges(boxes);
    for (std::size_t i = 0; i < enclosed.size(); ++i) {
      if (ranges.sign[i] != RegionSign::unknown)
        set(enclosed[i], static_cast<std::int8_t>(ranges.sign[i]));
      else if (!enclosed[i].is_cell())
        halve(enclosed[i], open);
    }
  }
}

void evaluate_unvalued(Volume& volume, const PointSource& points, const SignField& field,
                       const std::function<bool()>& goes_on) {
  constexpr std::size_t points_at_once = 1 << 18;
  const auto coordinates = coordinates_of(volume, points);
  for (std::size_t first = 0; first < volume.unvalued.size(); first += points_at_once) {
    if (!goes_on()) throw Interrupted("interrupted");
    const auto rows =
        std::span(volume.unvalued).subspan(first, std::min(points_at_once, volume.unvalued.size() - first));
    std::vector<double> block;
    for (const std::int64_t row : rows) {
      const Place place = place_of(volume, row);
      for (std::size_t c = 0; c < 3; ++c) block.push_back(coordinates[c][static_cast<std::size_t>(place[c])]);
    }
    std::vector<PointSign> found(rows.size());
    field.signs(block.data(), static_cast<std::int64_t>(found.size()), 3, 1, found);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i].sign != Sign::undecided) volume.values[static_cast<std::size_t>(rows[i])] = signed_value(found[i]);
  }
}

void Volume::add(std::span<const PointSign> points) {
  for (const PointSign& point : points) {
    const auto row = static_cast<std::int64_t>(values.size());
    if (point.stage == SignStage::given && std::isinf(point.bound) && is_at_unknown_cell(*this, place_of(*this, row)))
      unvalued.push_back(row);
    values.push_back(signed_value(point));
    signs.push_back(static_cast<std::int8_t>(point.sign));
  }
}

std::string to_vti(const Volume& volume) {
  std::array<double, 3> spacing{};
  for (std::size_t c = 0; c < 3; ++c)
    spacing[c] = (volume.box.upper[c] - volume.box.lower[c]) / static_cast<double>(volume.extents[c] - 1);
  const std::string extent =
      fmt::format("0 {} 0 {} 0 {}", volume.extents[0] - 1, volume.extents[1] - 1, volume.extents[2] - 1);
  AppendedArrays arrays;
  std::string text = fmt::format(
      "<?xml version=\"1.0\"?>\n<VTKFile type=\"ImageData\" version=\"1.0\" byte_order=\"LittleEndian\" "
      "header_type=\"UInt64\">\n<ImageData WholeExtent=\"{}\" Origin=\"{} {} {}\" Spacing=\"{} {} {}\">\n<Piece "
      "Extent=\"{}\">\n",
      extent, volume.box.lower[0], volume.box.lower[1], volume.box.lower[2], spacing[0], spacing[1], spacing[2],
      extent);
  text += "<PointData Scalars=\"value\">\n" + arrays.add("Float64", "value", reordered(volume, volume.values));
  text += arrays.add("Int8", "sign", reordered(volume, volume.signs));
  const std::vector<std::int8_t> corners = signs_of_corners(volume);
  text += "</PointData>\n<CellData Scalars=\"state\">\n" + arrays.add("Int8", "corners", corners);
  text += arrays.add("Int8", "state", states_of_cells(volume, corners));
  text += "</CellData>\n</Piece>\n</ImageData>\n<AppendedData encoding=\"raw\">\n_";
  return text + arrays.bytes() + "\n</AppendedData>\n</VTKFile>\n";
}

}  // namespace driftbound::analysis
