int toy_tested(int x);
int toy_untested(int x);

int main(void) {
  toy_untested(3);   // and does not look
  return !toy_tested(2) || toy_tested(3);
}
