// False alarms and detections of verdicts by chance: docs/campaigns.md. Honest float32 sums and products of structured data in
// many orders must never be improbable; products whose operands were rounded must always be, and be named right.
// Usage: improbable_campaign [ROUNDS [SEED]]. Exit status 1 where that fails.
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "analysis/judge.hpp"
#include "driftbound/evaluate/evaluator.hpp"
#include "support/structured_sums.hpp"

namespace {

using namespace driftbound;
using analysis::Comparison;
using analysis::Status;
using Lines = std::vector<std::vector<float>>;

constexpr std::size_t lengths[] = {2, 3, 4, 7, 16, 33, 64, 100, 256, 512, 1000, 2048, 4096, 8192, 16384, 32768};

/// How a loop reads a float32 number: so many bits behind the point, to nearest even, to nearest away or cut; fp16 has a
/// smallest normal number.
struct Read {
  std::string name;
  int bits = 23;
  enum class Way { even, away, cut } way = Way::even;
  float least = 0.0F;

  float operator()(float x) const {
    if (bits == 23) return x;
    if (std::abs(x) < least) return std::nearbyint(x / (least * 0x1p-10F)) * (least * 0x1p-10F);
    const std::uint32_t unit = std::uint32_t{1} << (23 - bits);
    std::uint32_t i = std::bit_cast<std::uint32_t>(x);
    if (way == Way::even) i += unit / 2 - 1 + (i / unit & 1);
    if (way == Way::away) i += unit / 2;
    return std::bit_cast<float>(i & ~(unit - 1));
  }
};

const Read as_it_is = {"as it is"};
const std::vector<Read> planted = {{"tf32", 10},
                                   {"tf32 (ties away)", 10, Read::Way::away},
                                   {"tf32 (cut)", 10, Read::Way::cut},
                                   {"fp16", 10, Read::Way::even, 0x1p-14F},
                                   {"bf16", 7},
                                   {"bf16 (cut)", 7, Read::Way::cut}};

/// Judges y as the recorded product of rows x and columns w in float32, in an order that is not declared.
Comparison judged(const Lines& x, const Lines& w, const std::vector<float>& y) {
  const auto m = static_cast<std::int64_t>(x.size()), n = static_cast<std::int64_t>(w.size()),
             k = static_cast<std::int64_t>(x[0].size());
  Tensor<float> left({m, k}), right({k, n});
  for (std::size_t i = 0; i < x.size(); ++i)
    std::copy(x[i].begin(), x[i].end(), left.values.begin() + static_cast<std::ptrdiff_t>(i * x[i].size()));
  for (std::size_t j = 0; j < w.size(); ++j)
    for (std::size_t l = 0; l < w[j].size(); ++l) right.values[l * w.size() + j] = w[j][l];
  Graph graph;
  const ValueId input = graph.add_input("x", ElementType::f32, {{-1, "batch"}, {k, ""}});
  graph.outputs = {graph.add_node("layer", op::MatMul{}, {input, graph.add_constant("w", StoredTensor::from(right))})};
  Inputs inputs;
  inputs.tensors = {{"x", StoredTensor::from(left)}};
  Trace trace = cpu_evaluator(cpu_arithmetic("fp32", parse_summation_order("sequential"))).run(graph, inputs);
  trace.layers[0].output = StoredTensor::from(Tensor<float>({m, n}, y));
  trace.provenance.program = "plain loops";
  trace.arithmetic.order = {};
  return analysis::judge(graph, trace, {}).comparison;
}

std::vector<float> products(const Lines& x, const Lines& w, const Read& read_x, const Read& read_w,
                            const structured::Order& order) {
  const auto read = [](Lines lines, const Read& how) {
    for (std::vector<float>& line : lines)
      for (float& value : line) value = how(value);
    return lines;
  };
  const Lines left = read(x, read_x), right = read(w, read_w);
  std::vector<float> y;
  for (const std::vector<float>& row : left)
    for (const std::vector<float>& column : right) y.push_back(structured::sum({row, column}, order));
  return y;
}

struct Counts {
  std::int64_t sums = 0, without_statement = 0, products = 0, improbable = 0, violated = 0, named = 0, decisive = 0;
};

void note(Counts& counts, const Comparison& comparison) {
  ++counts.products;
  const analysis::ScopeSummary& local = comparison.layers[0].local;
  counts.sums += local.elements;
  if (const analysis::BoundSummary* bound = find_bound(local, BoundKind::probabilistic))
    counts.without_statement += bound->without_statement;
  counts.improbable += comparison.verdict == Status::improbable ? 1 : 0;
  counts.violated += comparison.verdict == Status::violated ? 1 : 0;
}

Lines take(const std::vector<structured::Factors>& lines, std::vector<float> structured::Factors::*part) {
  Lines taken;
  for (const structured::Factors& line : lines) taken.push_back(line.*part);
  return taken;
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 1;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 20261128);
  const std::vector<structured::Order> orders = structured::orders();
  Counts honest_sums, honest_products;
  const auto alarm = [](const Comparison& comparison, const std::string& kind, std::size_t n) {
    if (comparison.verdict >= Status::improbable)
      fmt::print("ALARM {} n={}: {}\n", kind, n, name_of(comparison.verdict));
  };
  for (int round = 0; round < rounds; ++round)
    for (const structured::Kind& kind : structured::kinds())
      for (const std::size_t n : lengths) {
        const structured::Factors one = kind.make(n, random);
        std::vector<float> y;
        for (const structured::Order& order : orders) y.push_back(structured::sum(one, order));
        const Comparison in_all_orders = judged(Lines(orders.size(), one.x), {one.w}, y);
        note(honest_sums, in_all_orders);
        alarm(in_all_orders, kind.name, n);
        if (n > 4096 && round > 0) continue;
        std::vector<structured::Factors> lines;
        for (int i = 0; i < 8; ++i) lines.push_back(kind.make(n, random));
        const Lines x = take(lines, &structured::Factors::x), w = take(lines, &structured::Factors::w);
        const structured::Order& order = orders[random() % orders.size()];
        const Comparison whole = judged(x, w, products(x, w, as_it_is, as_it_is, order));
        note(honest_products, whole);
        alarm(whole, kind.name + " " + order.name, n);
      }
  for (const auto& [name, counts] : {std::pair("sums", honest_sums), std::pair("products", honest_products)})
    fmt::print("honest {}: {} products, {} sums, {} without a statement; improbable {}, violated {}\n", name,
               counts.products, counts.sums, counts.without_statement, counts.improbable, counts.violated);
  std::int64_t missed = 0;
  for (const std::size_t n : {512U, 3072U, 8192U, 32768U}) {
    std::map<std::string, Counts> by_name;
    std::map<std::string, double> ratio;
    for (int round = 0; round < 4 * rounds; ++round) {
      std::vector<structured::Factors> lines;
      for (int i = 0; i < 12; ++i) {
        lines.push_back(structured::kinds().front().make(n, random));
        for (float& value : lines.back().w) value *= 0.02F;
      }
      const Lines x = take(lines, &structured::Factors::x), w = take(lines, &structured::Factors::w);
      for (const Read& read : planted)
        for (const bool both : {true, false}) {
          const structured::Order& order = orders[random() % orders.size()];
          const Comparison found = judged(x, w, products(x, w, both ? read : as_it_is, read, order));
          const analysis::NearestReading& reading = *found.layers[0].nearest_reading;
          Counts& counts = by_name[read.name + (both ? "" : " of one operand")];
          note(counts, found);
          const std::string expected = both ? read.name : "as it is and " + read.name;
          bool is_named = to_string(reading.nearest) == expected;
          for (const analysis::ReadingPair& pair : reading.alike) is_named = is_named || to_string(pair) == expected;
          counts.named += is_named ? 1 : 0;
          if (!is_named && round == 0) fmt::print("{} where it is {}\n", describe(reading), expected);
          if (reading.is_decisive) ++counts.decisive;
          if (found.verdict < Status::improbable) ++missed;
          ratio[read.name + (both ? "" : " of one operand")] = reading.ratio;
        }
    }
    for (const auto& [name, counts] : by_name)
      fmt::print("n={} {}: of {} products named {}, decisive {}, improbable {}, violated {}; {:.0f} times nearer\n", n,
                 name, counts.products, counts.named, counts.decisive, counts.improbable, counts.violated, ratio[name]);
  }
  const std::int64_t alarms =
      honest_sums.improbable + honest_sums.violated + honest_products.improbable + honest_products.violated;
  fmt::print("false alarms {}, missed {}\n", alarms, missed);
  return alarms + missed == 0 ? 0 : 1;
}
