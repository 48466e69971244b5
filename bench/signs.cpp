#include <cstring>
#include <memory>
#include <vector>

#include "bench/networks.hpp"
#include "bench/plain.hpp"
#include "bench/points_in_digits.hpp"
#include "bench/timing.hpp"
#include "driftbound/implicit/sign_field.hpp"
#include "tests/support/sign_points.hpp"

// Certified signs by one thread against plain float32 evaluation of as many points by Eigen, in the same run: in blocks
// that stay in the cache, of the size and order in memory with which Eigen is fastest on that network. Uniform points
// also against evaluation of every point by MPFR and by Arb where it is installed, which take a few of them; their time
// is scaled to all.

namespace {

using namespace driftbound;

struct Sizes {
  std::size_t points, surface_points;
  int runs;
};

class Program {
public:
  Program(std::string label, const Graph& graph, const Target& target, const Sizes& sizes)
      : label_(std::move(label)), sizes_(sizes), graph_(graph), field_(graph, target) {}

  void time() {
    const std::size_t d = field_.dimension();
    const std::vector<double> uniform = sign_points::uniform(sizes_.points, d, 1);
    plain_ = bench::fastest_plain(graph_, uniform, d, sizes_.runs);
    against_plain("uniform", uniform);
    against_digits<bench::MpfrNumber>(uniform, "mpfr-113");
#ifdef DRIFTBOUND_WITH_ARB
    against_digits<bench::ArbNumber>(uniform, "arb-dot-113");
#endif
    const std::vector<double> surface = sign_points::bisected(field_, sizes_.surface_points, 2);
    for (const char* const width : {"1e-2", "1e-4", "1e-6"})
      against_plain(std::string("band-") + width, sign_points::band(surface, std::stod(width), 3));
    against_plain("surface", surface);
  }

private:
  void decide(const std::vector<double>& points) {
    signs_.resize(points.size() / field_.dimension());
    field_.signs(points.data(), static_cast<std::int64_t>(signs_.size()),
                 static_cast<std::ptrdiff_t>(field_.dimension()), 1, signs_);
  }

  void against_plain(const std::string& kind, const std::vector<double>& points) {
    if (points.empty()) return;
    decide(points);
    bench::print("signs", label_ + "/" + kind, plain_->name(),
                 bench::medians(
                     sizes_.runs, [&] { decide(points); }, [&] { plain_->run(points); }, bench::cpu_seconds_of),
                 1);
  }

  template <class Number>
  void against_digits(const std::vector<double>& points, const std::string& peer) {
    const std::size_t d = field_.dimension(), rows = points.size() / d, taken = std::min<std::size_t>(rows, 16);
    bench::PointForward<Number> forward(graph_);
    bench::Timing time = bench::medians(
        sizes_.runs, [&] { decide(points); },
        [&] {
          for (std::size_t row = 0; row < taken; ++row) sum_ += forward(&points[row * d], d);
        },
        bench::cpu_seconds_of);
    time.theirs *= static_cast<double>(rows) / static_cast<double>(taken);
    bench::print("signs", label_ + "/uniform", peer, time, 1);
  }

  std::string label_;
  Sizes sizes_;
  Graph graph_;
  SignField field_;
  std::unique_ptr<bench::Plain> plain_;
  std::vector<PointSign> signs_;
  double sum_ = 0.0;
};

void time_network(const std::string& name, const Sizes& sizes) {
  const bench::ScalarNetwork network(name);
  Program(network.label, network.graph, network.target, sizes).time();
}

}  // namespace

/// bench_signs [--quick | NETWORK...]: bundled ones by name, others by file; none: all bundled ones, and fox and bunny
/// where DRIFTBOUND_TEST_DATA says where they are.
int main(int argc, char** argv) {
  std::vector<std::string> names(argv + 1, argv + argc);
  if (names == std::vector<std::string>{"--quick"}) {
    for (const char* const name :
         {"mlp_2_10_10_2", "siren", "sphere_cut_sdf_relu", "torus_sdf_softplus", "oscillator_d2_w16"})
      time_network(name, {9000, 500, 1});
    return 0;
  }
  if (names.empty()) {
    names = {"mlp_2_10_10_2", "siren", "sphere_cut_sdf_relu", "torus_sdf_softplus"};
    for (const char* const size :
         {"d2_w16", "d4_w16", "d8_w16", "d2_w64", "d4_w64", "d8_w64", "d2_w128", "d4_w128", "d8_w128", "d4_w256"})
      names.push_back(std::string("oscillator_") + size);
    if (const char* const data = std::getenv("DRIFTBOUND_TEST_DATA"))
      for (const char* const file : {"/neural-implicit-queries/fox.npz", "/neural-implicit-queries/bunny.npz"})
        if (std::filesystem::exists(std::string(data) + file)) names.push_back(std::string(data) + file);
  }
  for (const std::string& name : names) time_network(name, {65536, 16384, 5});
}
