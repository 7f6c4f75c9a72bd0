"""Damage to text files: bytes changed, removed, repeated or cut off."""


def damaged(whole, chance, signs):
    """The bytes with a few accidents; `signs` are what the format gives a meaning to."""
    data = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data))
        kind = chance.randrange(6)
        if kind == 0:
            data[place] = chance.randrange(256)
        elif kind == 1:
            del data[place : place + chance.randint(1, 20)]
        elif kind == 2:
            data[place:place] = data[place : place + chance.randint(1, 60)]
        elif kind == 3:
            data[place:place] = chance.choice(signs)
        elif kind == 4:
            data = data[: max(1, place)]
        else:
            data[place] ^= 1 << chance.randrange(8)
        data = data or bytearray(signs[0])
    return bytes(data)
