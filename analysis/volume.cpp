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

using Place = std::array<std::int64_t, 3>;

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

bool is_at_unknown(const Volume& volume, std::int64_t row) {
  GridCells::Place place{};
  std::copy_n(place_of(volume, row).begin(), 3, place.begin());
  return volume.cells->is_at_unknown(place);
}

}  // namespace

void place_cells(Volume& volume, const PointSource& points) {
  volume.cells.emplace(coordinates_of(volume, points));
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
    if (point.stage == SignStage::given && std::isinf(point.bound) && is_at_unknown(*this, row))
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
  const std::vector<std::int8_t> signs = reordered(volume, volume.signs), corners = volume.cells->corners(signs);
  text += arrays.add("Int8", "sign", signs);
  text += "</PointData>\n<CellData Scalars=\"state\">\n" + arrays.add("Int8", "corners", corners);
  text += arrays.add("Int8", "state", volume.cells->states(corners));
  text += "</CellData>\n</Piece>\n</ImageData>\n<AppendedData encoding=\"raw\">\n_";
  return text + arrays.bytes() + "\n</AppendedData>\n</VTKFile>\n";
}

}  // namespace driftbound::analysis
