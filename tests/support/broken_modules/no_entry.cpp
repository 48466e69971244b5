// A library that exports something, but not the entry function of a module.
extern "C" int driftbound_something_else() {
  return 0;
}
