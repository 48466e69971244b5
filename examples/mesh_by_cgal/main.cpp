// Surfaces of neural implicit functions by CGAL's meshers, from certified signs:
//   mesh_by_cgal THREADS MODEL.onnx|MODEL.npz…
// What it prints does not depend on the number of threads.
// CGAL's meshers are GPL, and so is a program that calls them, as this one does. driftbound, and its header for CGAL,
// are not.
#include <CGAL/Complex_2_in_triangulation_3.h>
#include <CGAL/Exact_predicates_inexact_constructions_kernel.h>
#include <CGAL/Implicit_surface_3.h>
#include <CGAL/Labeled_mesh_domain_3.h>
#include <CGAL/Mesh_complex_3_in_triangulation_3.h>
#include <CGAL/Mesh_criteria_3.h>
#include <CGAL/Mesh_triangulation_3.h>
#include <CGAL/Random.h>
#include <CGAL/Surface_mesh_default_triangulation_3.h>
#include <CGAL/make_mesh_3.h>
#include <CGAL/make_surface_mesh.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "driftbound/adapters/cgal.hpp"
#include "driftbound/model/load.hpp"

using namespace driftbound;

namespace {

using Kernel = CGAL::Exact_predicates_inexact_constructions_kernel;
using Solid = cgal::BoundedSolid<Kernel>;
using Point = Kernel::Point_3;

struct Surface {
  std::vector<std::array<Point, 3>> triangles;
};

/// The boundary of the tetrahedra that fill the solid.
Surface by_make_mesh_3(const Solid& solid) {
  using Domain = CGAL::Labeled_mesh_domain_3<Kernel>;
  using Triangulation = CGAL::Mesh_triangulation_3<Domain>::type;
  using Complex = CGAL::Mesh_complex_3_in_triangulation_3<Triangulation>;
  namespace parameters = CGAL::parameters;
  const Domain domain =
      Domain::create_implicit_mesh_domain(solid, solid.bounding_object(), parameters::relative_error_bound = 1e-6);
  const CGAL::Mesh_criteria_3<Triangulation> criteria(parameters::facet_angle = 25, parameters::facet_size = 0.1,
                                                      parameters::facet_distance = 0.01, parameters::cell_size = 0.1,
                                                      parameters::cell_radius_edge_ratio = 3);
  // Without the perturbation of slivers at the end, which is another one in every run.
  const Complex complex = CGAL::make_mesh_3<Complex>(domain, criteria, parameters::no_perturb(), parameters::no_exude(),
                                                     parameters::manifold());
  Surface surface;
  for (auto facet = complex.facets_in_complex_begin(); facet != complex.facets_in_complex_end(); ++facet) {
    const auto triangle = complex.triangulation().triangle(*facet);
    surface.triangles.push_back({triangle[0], triangle[1], triangle[2]});
  }
  return surface;
}

Surface by_surface_mesher(const Solid& solid) {
  using Triangulation = CGAL::Surface_mesh_default_triangulation_3;
  using Complex = CGAL::Complex_2_in_triangulation_3<Triangulation>;
  Triangulation triangulation;
  Complex complex(triangulation);
  const CGAL::Implicit_surface_3<Kernel, Solid> boundary(solid, solid.bounding_sphere(), 1e-6);
  const CGAL::Surface_mesh_default_criteria_3<Triangulation> criteria(25, 0.1, 0.01);
  CGAL::make_surface_mesh(complex, boundary, criteria, CGAL::Manifold_tag());
  Surface surface;
  for (auto facet = complex.facets_begin(); facet != complex.facets_end(); ++facet) {
    const auto triangle = triangulation.triangle(*facet);
    surface.triangles.push_back({triangle[0], triangle[1], triangle[2]});
  }
  return surface;
}

/// Edges that do not lie in two triangles: the surface is closed if all of them lie in an even number.
struct Edges {
  int open = 0, crossing = 0;
};

Edges edges_of(const Surface& surface) {
  std::map<std::pair<Point, Point>, int> faces;
  for (const auto& corners : surface.triangles)
    for (std::size_t i = 0; i < 3; ++i) ++faces[std::minmax(corners[i], corners[(i + 1) % 3])];
  Edges edges;
  for (const auto& [edge, count] : faces) (count % 2 != 0 ? edges.open : edges.crossing) += count == 2 ? 0 : 1;
  return edges;
}

/// FNV-1a of all coordinates, in an order that does not depend on where CGAL keeps the triangles.
std::uint64_t hash_of(Surface surface) {
  for (auto& corners : surface.triangles) std::sort(corners.begin(), corners.end());
  std::sort(surface.triangles.begin(), surface.triangles.end());
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const auto& corners : surface.triangles)
    for (const Point& corner : corners)
      for (int c = 0; c < 3; ++c)
        for (const auto byte : std::bit_cast<std::array<unsigned char, sizeof(double)>>(corner[c]))
          hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

/// Returns whether the surface is closed. Where CGAL lets parts of it meet along an edge it is no manifold there.
bool report(const char* model, const char* name, const Surface& surface) {
  const Edges edges = edges_of(surface);
  const bool closed = edges.open == 0 && !surface.triangles.empty();
  std::printf("%-24s %-18s %5zu triangles, %s", std::filesystem::path(model).stem().c_str(), name,
              surface.triangles.size(), closed ? "closed" : "NOT CLOSED");
  if (edges.crossing > 0) std::printf(", not manifold at %d edges", edges.crossing);
  std::printf(", hash %016llx\n", static_cast<unsigned long long>(hash_of(surface)));
  return closed;
}

bool mesh(const char* model, int threads) {
  SignOptions options;
  options.threads = threads;
  const Solid solid(SignField(load_model(model), options).prepare());
  CGAL::get_default_random() = CGAL::Random(0);  // CGAL draws its first points with it, from the clock otherwise
  const bool closed = report(model, "make_mesh_3", by_make_mesh_3(solid));
  return report(model, "make_surface_mesh", by_surface_mesher(solid)) && closed;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool all_closed = argc > 2;
    for (int i = 2; i < argc; ++i) all_closed &= mesh(argv[i], std::stoi(argv[1]));
    return all_closed ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mesh_by_cgal: %s\n", error.what());
    return 1;
  }
}
