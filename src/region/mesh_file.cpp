#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include "driftbound/num/errors.hpp"
#include "driftbound/region/mesh.hpp"
#include "model/atomic_file.hpp"

namespace driftbound {
namespace {

static_assert(std::endian::native == std::endian::little, "mesh files are written as they lie in memory");

/// What the formats share: points, triangles, and numbers of both.
struct MeshTables {
  const char* title = "";  ///< what the file is, in its header
  std::vector<std::array<double, 3>> points{};
  std::vector<std::array<std::int32_t, 3>> triangles{};
  std::vector<double> distances{};         ///< of each point
  std::vector<std::int32_t> components{};  ///< of each triangle
  std::vector<MeshFaceState> states{};     ///< of each triangle

  bool is_certified(std::size_t triangle) const { return states[triangle] == MeshFaceState::certified; }
};

const char* title_of(const SurfaceMesh& mesh) {
  if (mesh.is_of_values) return "surface of computed values, without a certificate, by driftbound";
  if (mesh.is_certified()) return "surface of a network with a certificate, by driftbound";
  return "surface of a network, of which not all is certified, by driftbound";
}

MeshTables tables_of(const SurfaceMesh& mesh) {
  MeshTables tables{title_of(mesh), mesh.vertices, mesh.triangles, mesh.vertex_distances, mesh.topology.component, {}};
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t) tables.states.push_back(mesh.state_of(t));
  return tables;
}

/// The twelve triangles of every uncertain cell.
MeshTables boxes_of(const SurfaceMesh& mesh) {
  static constexpr std::array<std::array<std::int32_t, 3>, 12> sides = {{{0, 2, 3},
                                                                         {0, 3, 1},
                                                                         {4, 5, 7},
                                                                         {4, 7, 6},
                                                                         {0, 1, 5},
                                                                         {0, 5, 4},
                                                                         {2, 6, 7},
                                                                         {2, 7, 3},
                                                                         {0, 4, 6},
                                                                         {0, 6, 2},
                                                                         {1, 3, 7},
                                                                         {1, 7, 5}}};
  MeshTables tables{.title = "cells in which a surface is not certified, by driftbound"};
  std::int32_t number = 0;
  for (std::size_t i = 0; i < mesh.is_uncertain.size(); ++i) {
    if (!mesh.is_uncertain[i]) continue;
    const auto first = static_cast<std::int32_t>(tables.points.size());
    for (const std::int32_t node : mesh.cells.corners[i]) {
      tables.points.push_back(mesh.cells.point(static_cast<std::size_t>(node)));
      tables.distances.push_back(0.0);
    }
    for (const auto& side : sides) {
      tables.triangles.push_back({first + side[0], first + side[1], first + side[2]});
      tables.components.push_back(number);
      tables.states.push_back(MeshFaceState::uncertain_cell);
    }
    ++number;
  }
  return tables;
}

template <class Number>
void append(std::string& text, const Number& number) {
  char bytes[sizeof number];
  std::memcpy(bytes, &number, sizeof number);
  text.append(bytes, sizeof number);
}

struct StateLook {
  const char* name;
  std::array<std::uint8_t, 3> colour;
};
/// By MeshFaceState.
constexpr std::array<StateLook, 5> looks = {{{"certified", {176, 196, 222}},
                                             {"certain_cell", {253, 191, 111}},
                                             {"uncertain_cell", {214, 39, 40}},
                                             {"computed", {190, 190, 190}},
                                             {"wrong_signs", {148, 0, 211}}}};

const StateLook& look_of(MeshFaceState state) {
  return looks[static_cast<std::size_t>(state)];
}

/// The largest state of the triangles around each point: what is not certified shows.
std::vector<MeshFaceState> states_of_points(const MeshTables& mesh) {
  std::vector<MeshFaceState> states(mesh.points.size(), MeshFaceState::certified);
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t)
    for (const std::int32_t point : mesh.triangles[t]) {
      MeshFaceState& state = states[static_cast<std::size_t>(point)];
      state = std::max(state, mesh.states[t]);
    }
  return states;
}

std::string ply_of(const MeshTables& mesh) {
  std::string text = fmt::format(
      "ply\nformat binary_little_endian 1.0\ncomment {}\n"
      "comment state: 0 certified, 1 certain cell of a component that is not certified, 2 uncertain cell, "
      "3 computed, 4 computed with a wrong sign\n"
      "element vertex {}\nproperty double x\nproperty double y\nproperty double z\nproperty double distance\n"
      "property uchar red\nproperty uchar green\nproperty uchar blue\n"
      "element face {}\nproperty list uchar int vertex_indices\nproperty int component\nproperty uchar certified\n"
      "property uchar state\nproperty uchar red\nproperty uchar green\nproperty uchar blue\nend_header\n",
      mesh.title, mesh.points.size(), mesh.triangles.size());
  const std::vector<MeshFaceState> of_points = states_of_points(mesh);
  for (std::size_t i = 0; i < mesh.points.size(); ++i) {
    for (const double x : mesh.points[i]) append(text, x);
    append(text, mesh.distances[i]);
    append(text, look_of(of_points[i]).colour);
  }
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t) {
    append(text, std::uint8_t{3});
    for (const std::int32_t vertex : mesh.triangles[t]) append(text, vertex);
    append(text, mesh.components[t]);
    append(text, static_cast<std::uint8_t>(mesh.is_certified(t) ? 1 : 0));
    append(text, mesh.states[t]);
    append(text, look_of(mesh.states[t]).colour);
  }
  return text;
}

std::string obj_of(const MeshTables& mesh) {
  std::string text = fmt::format("# {}\n", mesh.title);
  for (const auto& point : mesh.points)
    fmt::format_to(std::back_inserter(text), "v {} {} {}\n", point[0], point[1], point[2]);
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t) {
    if (t == 0 || mesh.components[t] != mesh.components[t - 1] || mesh.states[t] != mesh.states[t - 1])
      fmt::format_to(std::back_inserter(text), "g component_{}_{}\n", mesh.components[t], look_of(mesh.states[t]).name);
    const auto& [a, b, c] = mesh.triangles[t];
    fmt::format_to(std::back_inserter(text), "f {} {} {}\n", a + 1, b + 1, c + 1);
  }
  return text;
}

std::string stl_of(const MeshTables& mesh) {
  // Without triangles as text: VTK takes so short a file for that, and so do those that go by its length.
  if (mesh.triangles.empty()) return fmt::format("solid {0}\nendsolid {0}\n", mesh.title);
  std::string text = mesh.title;
  text.resize(80, ' ');
  append(text, static_cast<std::uint32_t>(mesh.triangles.size()));
  for (const auto& triangle : mesh.triangles) {
    std::array<std::array<float, 3>, 3> corners{};
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t c = 0; c < 3; ++c)
        corners[i][c] = static_cast<float>(mesh.points[static_cast<std::size_t>(triangle[i])][c]);
    for (int c = 0; c < 3; ++c) append(text, 0.0F);  // readers take the normal from the order of the corners
    for (const auto& corner : corners)
      for (const float x : corner) append(text, x);
    append(text, std::uint16_t{0});
  }
  return text;
}

/// VTK's XML with data appended as they lie in memory, each array after its number of bytes.
class VtpWriter {
public:
  template <class Numbers>
  std::string array(const char* type, const char* name, int components, const Numbers& numbers) {
    const std::string element = fmt::format(
        "<DataArray type=\"{}\" Name=\"{}\" NumberOfComponents=\"{}\" format=\"appended\" offset=\"{}\"/>\n", type,
        name, components, data_.size());
    const std::size_t bytes = numbers.size() * sizeof numbers[0];
    append(data_, static_cast<std::uint64_t>(bytes));
    if (bytes > 0) data_.append(reinterpret_cast<const char*>(numbers.data()), bytes);
    return element;
  }
  const std::string& data() const { return data_; }

private:
  std::string data_;
};

std::string vtp_of(const MeshTables& mesh) {
  std::vector<std::int32_t> ends;
  std::vector<std::uint8_t> certified;
  for (std::size_t t = 0; t < mesh.triangles.size(); ++t) {
    ends.push_back(static_cast<std::int32_t>(3 * t + 3));
    certified.push_back(mesh.is_certified(t) ? 1 : 0);
  }
  VtpWriter arrays;
  std::string text = fmt::format(
      "<?xml version=\"1.0\"?>\n<!-- {} -->\n<VTKFile type=\"PolyData\" version=\"1.0\" byte_order=\"LittleEndian\" "
      "header_type=\"UInt64\">\n<PolyData>\n<Piece NumberOfPoints=\"{}\" NumberOfVerts=\"0\" NumberOfLines=\"0\" "
      "NumberOfStrips=\"0\" NumberOfPolys=\"{}\">\n",
      mesh.title, mesh.points.size(), mesh.triangles.size());
  text += "<PointData Scalars=\"distance\">\n" + arrays.array("Float64", "distance", 1, mesh.distances) +
          "</PointData>\n<CellData Scalars=\"certified\">\n" + arrays.array("UInt8", "certified", 1, certified) +
          arrays.array("UInt8", "state", 1, mesh.states) + arrays.array("Int32", "component", 1, mesh.components) +
          "</CellData>\n<Points>\n" + arrays.array("Float64", "Points", 3, mesh.points) + "</Points>\n<Polys>\n" +
          arrays.array("Int32", "connectivity", 1, mesh.triangles) + arrays.array("Int32", "offsets", 1, ends) +
          "</Polys>\n</Piece>\n</PolyData>\n<AppendedData encoding=\"raw\">\n_";
  return text + arrays.data() + "\n</AppendedData>\n</VTKFile>\n";
}

std::string mesh_text(const MeshTables& mesh, const std::filesystem::path& file) {
  const std::string ending = file.extension().string();
  if (ending == ".ply") return ply_of(mesh);
  if (ending == ".obj") return obj_of(mesh);
  if (ending == ".vtp") return vtp_of(mesh);
  if (ending == ".stl") return stl_of(mesh);
  throw InvalidArgument(file.string() + ": a mesh is written as .ply, .obj, .vtp or .stl, by the ending of its name");
}

void write_tables(const MeshTables& mesh, const std::filesystem::path& file) {
  const std::string text = mesh_text(mesh, file);
  AtomicFile out(file);
  out.write(text);
  out.commit();
}

}  // namespace

void write_mesh(const SurfaceMesh& mesh, const std::filesystem::path& file) {
  write_tables(tables_of(mesh), file);
}

void write_uncertain_cells(const SurfaceMesh& mesh, const std::filesystem::path& file) {
  write_tables(boxes_of(mesh), file);
}

}  // namespace driftbound
