#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <variant>

namespace driftbound {

/// The bounds that bound() computes; each has a name in reports and on the command line. docs/theory.md states the
/// theorems. Local bounds compare a layer with the exact layer on the computed input, the others a layer, an output or
/// a target with the exact network on the original input.
enum class BoundKind {
  /// Local: a layer's rounding errors, sums in any order ("componentwise").
  componentwise,
  /// Local: the same for sums rounded to nearest, smaller by T-68 ("partial-sums").
  partial_sums,
  /// Local: the same with rounding errors modelled as random, up to a failure probability, T-74 ("probabilistic").
  probabilistic,
  /// Local: sums in the declared order, by the partial sums of the recorded run, T-69 ("running").
  running,
  /// Local: sums in the declared order, by the magnitudes of their terms ("order-aware").
  order_aware,
  /// Local: gamma_n |y| of a product, a rule of thumb, T-19 ("seed-gamma").
  seed_gamma,
  /// Local: the same with twice the unit roundoff ("seed-gamma/note").
  seed_gamma_note,
  /// This run: the local bounds of all layers, propagated from the input on, T-40 ("forward").
  forward,
  /// This run: its distance from a shadow in double plus that of the shadow from the exact network, T-70 ("shadow").
  shadow,
  /// Every run, sums in any order, T-71 ("adjoint/any-order").
  adjoint_any_order,
  /// Every run, sums in the declared order, T-71 ("adjoint/order-aware").
  adjoint_order_aware,
  /// Every run in the declared order, if the arithmetic determines the run: the error of that run, T-97 ("replay").
  replay,
  /// Every run, any order, rounding errors modelled as random, T-74 ("adjoint/probabilistic").
  adjoint_probabilistic,
  /// Every run: six standard deviations of sums in random order, an estimate, T-75 ("adjoint/statistical").
  adjoint_statistical,
  /// Every run, any order, with the roundings to a narrow format executed, T-76 ("rounded-shadow").
  rounded_shadow,
  /// Output: sum of gamma_n |y| over its products, a rule of thumb, T-19 ("seed-sum-gamma").
  seed_sum_gamma,
  /// Output: the same with twice the unit roundoff ("seed-sum-gamma/note").
  seed_sum_gamma_note,
};

/// What bound() computes for targets besides bounds.
enum class Diagnostic {
  /// TargetBounds::attribution ("attribution").
  attribution,
  /// TargetBounds::condition ("condition").
  condition,
};

/// What can be requested of bound().
using BoundRequest = std::variant<BoundKind, Diagnostic>;

std::string_view name_of(BoundKind kind);
std::string_view name_of(Diagnostic diagnostic);
std::string_view name_of(const BoundRequest& request);

/// All that can be requested: every bound, in the order of BoundKind, then every diagnostic.
std::span<const BoundRequest> every_bound_request();
/// Returns the bound with this name, if there is one.
std::optional<BoundKind> bound_kind(std::string_view name);
/// Returns the bound or diagnostic with this name, if there is one.
std::optional<BoundRequest> bound_request(std::string_view name);

}  // namespace driftbound
