#include "driftbound/num/magnitude.hpp"

#include <cmath>
#include <limits>

#include "driftbound/num/directed.hpp"

namespace driftbound {

Magnitude Magnitude::infinite() {
  return Magnitude(std::numeric_limits<double>::infinity());
}

bool Magnitude::is_finite() const {
  return std::isfinite(value_);
}

Magnitude& Magnitude::operator+=(Magnitude other) {
  return *this = Magnitude(add_up(value_, other.value_));
}

Magnitude& Magnitude::operator*=(Magnitude other) {
  return *this = Magnitude(mul_up(value_, other.value_));
}

Magnitude divide_up(Magnitude x, double denominator_lower) {
  if (!(denominator_lower > 0.0)) return Magnitude::infinite();
  return Magnitude(div_up(x.value(), denominator_lower));
}

Magnitude sqrt_up(Magnitude x) {
  return Magnitude(sqrt_up(x.value()));
}

Magnitude subtract_up(Magnitude x, double subtrahend_lower) {
  if (!(subtrahend_lower > 0.0)) return x;
  const double difference = sub_up(x.value(), subtrahend_lower);
  return difference < 0.0 ? Magnitude() : Magnitude(difference);
}

}  // namespace driftbound
