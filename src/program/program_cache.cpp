#include "program/program_cache.hpp"

#include <cstddef>
#include <utility>

namespace driftbound {
namespace {

constexpr std::size_t most_kept = 8;

template <class Entry>
void keep(Entry entry, std::vector<Entry>& kept) {
  if (kept.size() == most_kept) kept.erase(kept.begin());
  kept.push_back(std::move(entry));
}

}  // namespace

std::shared_ptr<const Program> ProgramCache::program(const Graph& graph, const std::vector<Shape>& input_shapes,
                                                     std::optional<std::int64_t> rows) {
  const std::lock_guard lock(mutex_);
  for (const OfShapes& known : of_shapes_)
    if (known.input_shapes == input_shapes && known.rows == rows) return known.program;
  keep({input_shapes, rows, std::make_shared<const Program>(graph, input_shapes, rows)}, of_shapes_);
  return of_shapes_.back().program;
}

std::shared_ptr<const Program> ProgramCache::with_rows(const Program& program, std::int64_t rows) {
  const std::lock_guard lock(mutex_);
  for (const OfRows& known : of_rows_)
    if (known.identity == program.identity() && known.rows == rows) return known.program;
  std::optional<Program> other = program.with_rows(rows);
  keep({program.identity(), rows, other ? std::make_shared<const Program>(std::move(*other)) : nullptr}, of_rows_);
  return of_rows_.back().program;
}

}  // namespace driftbound
