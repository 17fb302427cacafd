"""Objects whose pickles make a file when they are loaded. The heavy ones lie beside the journal."""


def sing(path, fat):
    with open(path, "w") as file:
        file.write("unpickled")


class Bird:
    def __init__(self, path, weight=0):
        self.path, self.fat = path, "x" * weight

    def __reduce__(self):
        return sing, (self.path, self.fat)
