#include "driftbound/bounds/bound_kind.hpp"

#include <algorithm>
#include <array>

namespace driftbound {

std::string_view name_of(BoundKind kind) {
  switch (kind) {
    case BoundKind::componentwise:
      return "componentwise";
    case BoundKind::partial_sums:
      return "partial-sums";
    case BoundKind::probabilistic:
      return "probabilistic";
    case BoundKind::running:
      return "running";
    case BoundKind::order_aware:
      return "order-aware";
    case BoundKind::seed_gamma:
      return "seed-gamma";
    case BoundKind::seed_gamma_note:
      return "seed-gamma/note";
    case BoundKind::forward:
      return "forward";
    case BoundKind::shadow:
      return "shadow";
    case BoundKind::adjoint_any_order:
      return "adjoint/any-order";
    case BoundKind::adjoint_order_aware:
      return "adjoint/order-aware";
    case BoundKind::replay:
      return "replay";
    case BoundKind::adjoint_probabilistic:
      return "adjoint/probabilistic";
    case BoundKind::adjoint_statistical:
      return "adjoint/statistical";
    case BoundKind::rounded_shadow:
      return "rounded-shadow";
    case BoundKind::seed_sum_gamma:
      return "seed-sum-gamma";
    case BoundKind::seed_sum_gamma_note:
      break;
  }
  return "seed-sum-gamma/note";
}

std::string_view name_of(Diagnostic diagnostic) {
  return diagnostic == Diagnostic::attribution ? "attribution" : "condition";
}

std::string_view name_of(const BoundRequest& request) {
  return std::visit([](const auto& one) { return name_of(one); }, request);
}

std::span<const BoundRequest> every_bound_request() {
  static constexpr std::array<BoundRequest, 19> all = {BoundKind::componentwise,
                                                       BoundKind::partial_sums,
                                                       BoundKind::probabilistic,
                                                       BoundKind::running,
                                                       BoundKind::order_aware,
                                                       BoundKind::seed_gamma,
                                                       BoundKind::seed_gamma_note,
                                                       BoundKind::forward,
                                                       BoundKind::shadow,
                                                       BoundKind::adjoint_any_order,
                                                       BoundKind::adjoint_order_aware,
                                                       BoundKind::replay,
                                                       BoundKind::adjoint_probabilistic,
                                                       BoundKind::adjoint_statistical,
                                                       BoundKind::rounded_shadow,
                                                       BoundKind::seed_sum_gamma,
                                                       BoundKind::seed_sum_gamma_note,
                                                       Diagnostic::attribution,
                                                       Diagnostic::condition};
  return all;
}

std::optional<BoundRequest> bound_request(std::string_view name) {
  for (const BoundRequest& request : every_bound_request())
    if (name_of(request) == name) return request;
  return std::nullopt;
}

std::optional<BoundKind> bound_kind(std::string_view name) {
  const std::optional<BoundRequest> request = bound_request(name);
  const BoundKind* kind = request ? std::get_if<BoundKind>(&*request) : nullptr;
  return kind != nullptr ? std::optional(*kind) : std::nullopt;
}

}  // namespace driftbound
