# lit's format for shell tests, without the files that have no RUN line: a .nn file may also be an input of other tests.
# A module of its own because lit sends test formats to its worker processes, which find classes by module.
import lit.formats


class ShTestsWithRunLines(lit.formats.ShTest):
    def getTestsInDirectory(self, *args):
        for test in super().getTestsInDirectory(*args):
            with open(test.getSourcePath(), errors="replace") as source:
                if "RUN:" in source.read():
                    # Ranks wait for each other much of the time: first, while unit tests use what they leave.
                    if test.path_in_suite[0] == "ranks" and not test.previous_elapsed:
                        test.previous_elapsed = 1
                    yield test
