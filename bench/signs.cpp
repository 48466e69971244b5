#include <cstring>
#include <vector>

#include "bench/networks.hpp"
#include "bench/timing.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "tests/support/sign_points.hpp"

// Certified signs by one thread against plain float32 evaluation of as many points by Eigen, in the same run.

namespace {

using namespace driftbound;

struct Sizes {
  std::size_t points, surface_points;
  int runs;
};

Inputs inputs_of(const Graph& graph, const std::vector<double>& points, std::size_t dimension) {
  const auto rows = static_cast<std::int64_t>(points.size() / dimension);
  return {{{graph.value(graph.inputs[0]).name,
            StoredTensor::from(Tensor<double>({rows, static_cast<std::int64_t>(dimension)}, points))}}};
}

void time_points(const std::string& name, const SignField& field, const std::vector<double>& points, int runs) {
  const std::size_t rows = points.size() / field.dimension();
  if (rows == 0) return;
  bench::Forward<float> forward(field.graph(), inputs_of(field.graph(), points, field.dimension()));
  std::vector<PointSign> signs(rows);
  const auto ours = [&] {
    field.signs(points.data(), static_cast<std::int64_t>(rows), static_cast<std::ptrdiff_t>(field.dimension()), 1,
                signs);
  };
  ours();
  forward();
  bench::print("signs", name, "eigen float32",
               bench::medians(
                   runs, ours, [&] { forward(); }, bench::cpu_seconds_of),
               1);
}

void time_network(const std::string& name, const Sizes& sizes) {
  const bool is_classifier = name.starts_with("oscillator") || name.starts_with("mlp");
  const bool is_file = name.ends_with(".npz");
  const Graph graph = is_file ? load_model(name) : bench::bundled(name);
  const std::string label = is_file ? std::filesystem::path(name).stem().string() : name;
  const Target target = is_classifier ? Target{{0, 1}, OutputElement{0, 0}} : Target{};
  const SignField field(graph, target);
  time_points(label + "/uniform", field, sign_points::uniform(sizes.points, field.dimension(), 1), sizes.runs);
  const std::vector<double> surface = sign_points::bisected(field, sizes.surface_points, 2);
  for (const char* const width : {"1e-2", "1e-4", "1e-6"})
    time_points(label + "/band-" + width, field, sign_points::band(surface, std::stod(width), 3), sizes.runs);
  time_points(label + "/surface", field, surface, sizes.runs);
}

}  // namespace

int main(int argc, char** argv) {
  const bool is_quick = argc > 1 && std::strcmp(argv[1], "--quick") == 0;
  const Sizes sizes = is_quick ? Sizes{9000, 500, 1} : Sizes{65536, 16384, 5};
  std::vector<std::string> names = {"mlp_2_10_10_2", "siren", "sphere_cut_sdf_relu", "torus_sdf_softplus",
                                    "oscillator_d2_w16"};
  if (!is_quick)
    for (const char* const size :
         {"d4_w16", "d8_w16", "d2_w64", "d4_w64", "d8_w64", "d2_w128", "d4_w128", "d8_w128", "d4_w256"})
      names.push_back(std::string("oscillator_") + size);
  if (!is_quick)
    for (int i = 1; i < argc; ++i) names.emplace_back(argv[i]);
  for (const std::string& name : names) time_network(name, sizes);
}
