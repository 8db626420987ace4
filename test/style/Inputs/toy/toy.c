int toy_tested(int x) { return x < 3; }
int toy_untested(int x) { return x < 3; }
