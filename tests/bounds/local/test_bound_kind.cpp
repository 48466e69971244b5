#include <doctest/doctest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "driftbound/bounds/bound.hpp"

using namespace driftbound;

TEST_CASE("names of bounds and diagnostics are those of reports and --bounds, and are read back") {
  const std::vector<std::string_view> names = {"componentwise",
                                               "partial-sums",
                                               "probabilistic",
                                               "running",
                                               "order-aware",
                                               "seed-gamma",
                                               "seed-gamma/note",
                                               "forward",
                                               "shadow",
                                               "adjoint/any-order",
                                               "adjoint/order-aware",
                                               "replay",
                                               "adjoint/probabilistic",
                                               "adjoint/statistical",
                                               "rounded-shadow",
                                               "seed-sum-gamma",
                                               "seed-sum-gamma/note",
                                               "attribution",
                                               "condition"};
  std::vector<std::string_view> found;
  for (const BoundRequest& request : every_bound_request()) {
    found.push_back(name_of(request));
    CHECK((bound_request(name_of(request)) == request));
    const BoundKind* kind = std::get_if<BoundKind>(&request);
    CHECK(bound_kind(name_of(request)).has_value() == (kind != nullptr));
    if (kind != nullptr) CHECK((bound_kind(name_of(*kind)) == *kind));
  }
  CHECK((found == names));
  CHECK_FALSE(bound_request("shadows").has_value());
  CHECK_FALSE(bound_kind("").has_value());
}

TEST_CASE("options without requests want everything, others what they request") {
  BoundOptions options;
  CHECK((options.wants(BoundKind::replay) && options.wants(Diagnostic::condition)));
  options.requests = {BoundKind::shadow, Diagnostic::attribution};
  CHECK((options.wants(BoundKind::shadow) && options.wants(Diagnostic::attribution)));
  CHECK_FALSE(options.wants(BoundKind::replay));
  CHECK_FALSE(options.wants(Diagnostic::condition));
}
