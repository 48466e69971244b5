#include "analysis/volume.hpp"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

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

}  // namespace

void Volume::add(std::span<const PointSign> points) {
  for (const PointSign& point : points) {
    const double size = std::fmax(std::fabs(point.value), std::numeric_limits<double>::min());
    values.push_back(point.sign == Sign::undecided ? std::numeric_limits<double>::quiet_NaN()
                                                   : static_cast<double>(static_cast<int>(point.sign)) * size);
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
  text += "</PointData>\n<CellData Scalars=\"corners\">\n" + arrays.add("Int8", "corners", signs_of_corners(volume));
  text += "</CellData>\n</Piece>\n</ImageData>\n<AppendedData encoding=\"raw\">\n_";
  return text + arrays.bytes() + "\n</AppendedData>\n</VTKFile>\n";
}

}  // namespace driftbound::analysis
