#include "driftbound/model/ops.hpp"

namespace driftbound {

Op::Op() = default;
Op::Op(const Op&) = default;
Op::Op(Op&&) noexcept = default;
Op& Op::operator=(const Op&) = default;
Op& Op::operator=(Op&&) noexcept = default;
Op::~Op() = default;

std::string_view name_of(const Op& op) {
  return std::visit([]<class T>(const T&) { return T::name; }, op);
}

}  // namespace driftbound
