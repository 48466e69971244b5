#include "driftbound/region/mesh.hpp"

#include <vtkFloatArray.h>
#include <vtkFlyingEdges3D.h>
#include <vtkImageData.h>
#include <vtkMarchingCubes.h>
#include <vtkPointData.h>
#include <vtkPolyData.h>
#include <vtkSmartPointer.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/plain.hpp"
#include "bench/timing.hpp"

// A mesh with a certificate by one thread, against plain float32 evaluation by Eigen (as bench/signs.cpp has it) of all
// corners of the same grid and VTK's marching cubes of these values.

namespace {

using namespace driftbound;

class Program {
public:
  explicit Program(const bench::ScalarNetwork& network) : network_(network) {}

  void time(std::int64_t cells) {
    MeshOptions options;
    options.cell = 2.0 / static_cast<double>(cells);
    SurfaceMesh surface;
    const double ours = bench::cpu_seconds_of([&] { surface = mesh(network_.graph, cube, options, network_.target); });

    const std::vector<double> points = corners_of(surface.cells);
    constexpr std::size_t some = 3 << 16;
    const std::vector<double> first(points.begin(),
                                    points.begin() + static_cast<std::ptrdiff_t>(std::min(some, points.size())));
    const auto plain = bench::fastest_plain(network_.graph, first, 3, 3);
    std::vector<float> values(points.size() / 3);
    const double evaluation = bench::cpu_seconds_of([&] { plain->run(points, values.data()); });
    const auto image = image_of(surface.cells, values);
    std::int64_t triangles = 0;
    const auto seconds_of = [&](auto filter) {
      filter->SetInputData(image);
      filter->SetValue(0, 0.0);
      filter->ComputeNormalsOff();
      filter->ComputeGradientsOff();
      filter->ComputeScalarsOff();
      const double seconds = bench::cpu_seconds_of([&] { filter->Update(); });
      triangles = filter->GetOutput()->GetNumberOfPolys();
      return seconds;
    };
    const double cubes = seconds_of(vtkSmartPointer<vtkMarchingCubes>::New());
    const double edges = seconds_of(vtkSmartPointer<vtkFlyingEdges3D>::New());
    bench::print("mesh", fmt::format("mesh/{}/{}/t1", network_.label, cells),
                 plain->name() + (edges < cubes ? " and vtkFlyingEdges3D" : " and vtkMarchingCubes"),
                 {ours, evaluation + std::min(edges, cubes)}, 1,
                 {{"cells", static_cast<double>(surface.cells.cells.size())},
                  {"triangles", static_cast<double>(surface.triangles.size())},
                  {"uncertain_cells", static_cast<double>(surface.uncertain_cells)},
                  {"components", static_cast<double>(surface.topology.components.size())},
                  {"evaluation_s", evaluation},
                  {"marching_cubes_s", cubes},
                  {"flying_edges_s", edges},
                  {"triangles_of_cubes", static_cast<double>(triangles)}});
  }

private:
  inline static const Box cube = {{-1, -1, -1}, {1, 1, 1}};

  /// All corners of all cells of the box, the first coordinate running fastest, as VTK has them.
  static std::vector<double> corners_of(const SurfaceCells& cells) {
    std::vector<double> points;
    const auto& [nx, ny, nz] = cells.extents;
    points.reserve(static_cast<std::size_t>(3 * (nx + 1) * (ny + 1) * (nz + 1)));
    const auto at = [&](std::size_t c, std::int64_t i) {
      return cells.lower[c] + static_cast<double>(i) * cells.step[c];
    };
    for (std::int64_t k = 0; k <= nz; ++k)
      for (std::int64_t j = 0; j <= ny; ++j)
        for (std::int64_t i = 0; i <= nx; ++i) points.insert(points.end(), {at(0, i), at(1, j), at(2, k)});
    return points;
  }

  static vtkSmartPointer<vtkImageData> image_of(const SurfaceCells& cells, std::vector<float>& values) {
    const auto image = vtkSmartPointer<vtkImageData>::New();
    std::array<int, 3> extents{};
    for (std::size_t c = 0; c < 3; ++c) extents[c] = static_cast<int>(cells.extents[c] + 1);
    image->SetDimensions(extents.data());
    image->SetOrigin(cells.lower.data());
    image->SetSpacing(cells.step.data());
    const auto array = vtkSmartPointer<vtkFloatArray>::New();
    array->SetArray(values.data(), static_cast<vtkIdType>(values.size()), 1);
    image->GetPointData()->SetScalars(array);
    return image;
  }

  const bench::ScalarNetwork& network_;
};

}  // namespace

/// bench_mesh [--quick | CELLS NETWORK...]: cells a side of [-1, 1]^3, and bundled networks by name, others by file; none:
/// bundled fields in 128 cells, and fox in 256 where DRIFTBOUND_TEST_DATA says where it is.
int main(int argc, char** argv) {
  ::setenv("VTK_SMP_MAX_THREADS", "1", 1);
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words == std::vector<std::string>{"--quick"}) {
    Program(bench::ScalarNetwork("torus_sdf_softplus")).time(16);
    return 0;
  }
  if (words.size() > 1) {
    for (std::size_t i = 1; i < words.size(); ++i)
      Program(bench::ScalarNetwork(words[i])).time(std::atoll(words[0].c_str()));
    return 0;
  }
  for (const char* const name : {"siren", "sphere_cut_sdf_relu", "torus_sdf_softplus"})
    Program(bench::ScalarNetwork(name)).time(128);
  const char* const data = std::getenv("DRIFTBOUND_TEST_DATA");
  const std::string fox = std::string(data == nullptr ? "" : data) + "/neural-implicit-queries/fox.npz";
  if (data != nullptr && std::filesystem::exists(fox)) Program(bench::ScalarNetwork(fox)).time(256);
}
