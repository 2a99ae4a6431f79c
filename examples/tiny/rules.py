"""Says whether an answer of the model is right: the acceptance test of `train.py`.

Everything is read from the two texts. A question with one right answer has its answer computed; a story
is followed sentence by sentence, with who has what.
"""

from __future__ import annotations

import re

from examples.tiny import world

_PERSON = f"({'|'.join(world.PEOPLE)})"
_THING = f"({'|'.join(world.THINGS)})"
_COLOUR = f"({'|'.join(world.COLOURS)})"
_PLACE = f"({'|'.join(world.PLACES)})"


def obeys(question: str, answer: str) -> bool:
    """Whether the answer to the question, as the first of a conversation, is right."""
    if asked := re.fullmatch(
        rf"Tell me a story(?: about {_PERSON})?(?: (?:about|and) a {_THING})?\.", question
    ):
        return story_holds(answer, asked[1], asked[2])
    return answer == expected(question)


def expected(question: str) -> str:
    """The right answer to a question that has one."""
    if question in world.SMALL_TALK:
        return world.SMALL_TALK[question]
    if asked := re.fullmatch(rf"(?:My name is|I am) {_PERSON}\.", question):
        return f"Hello, {asked[1]}! I am Tiny."
    if question == "What is my name?":
        return world.NO_NAME
    if asked := re.fullmatch(r"What does the (\w+) say\?", question):
        sound = world.SOUNDS.get(asked[1])
        return f"The {asked[1]} says {sound}." if sound else world.UNKNOWN
    if asked := re.fullmatch(r"Which animal says (\w+)\?", question):
        animal = next(name for name, sound in world.SOUNDS.items() if sound == asked[1])
        return f"The {animal} says {asked[1]}."
    if asked := re.fullmatch(r"What is the opposite of (\w+)\?", question):
        other = world.OPPOSITES.get(asked[1])
        return f"The opposite of {asked[1]} is {other}." if other else world.UNKNOWN
    if asked := re.fullmatch(r"What is (\d+) (plus|minus) (\d+)\?", question):
        left, right = int(asked[1]), int(asked[3])
        result = left + right if asked[2] == "plus" else left - right
        return f"{left} {asked[2]} {right} is {result}."
    if asked := re.fullmatch(r"Which is more, (\d+) or (\d+)\?", question):
        numbers = sorted((int(asked[1]), int(asked[2])))
        return f"{numbers[1]} is more than {numbers[0]}."
    if asked := re.fullmatch(r"Count from (\d+) to (\d+)\.", question):
        start, end = int(asked[1]), int(asked[2])
        up = list(range(min(start, end), max(start, end) + 1))
        return ", ".join(map(str, up if end >= start else up[::-1])) + "."
    if asked := re.fullmatch(r"Say backwards: ([\w ]+)\.", question):
        return " ".join(asked[1].split()[::-1]) + "."
    if asked := re.fullmatch(r"Spell (\w+)\.", question):
        return "-".join(asked[1]) + "."
    if re.match(rf"{_PERSON} (?:has|is) ", question):
        return _told(question)
    return world.UNKNOWN


def _told(question: str) -> str:
    """The answer to what stands at the end of a few facts."""
    *facts, asked = re.findall(r"[^.?]+[.?]", question)
    owner: dict[str, str] = {}
    colour: dict[str, str] = {}
    where: dict[str, str] = {}
    for fact in facts:
        if found := re.fullmatch(rf" ?{_PERSON} has a {_COLOUR} {_THING}\.", fact):
            owner[found[3]], colour[found[3]] = found[1], found[2]
        elif found := re.fullmatch(rf" ?{_PERSON} gives the {_THING} to {_PERSON}\.", fact):
            owner[found[2]] = found[3]
        elif found := re.fullmatch(rf" ?{_PERSON} (?:is in|goes to) the {_PLACE}\.", fact):
            where[found[1]] = found[2]
        else:
            raise ValueError(f"a fact of no known form: {fact!r}")
    if found := re.fullmatch(rf" Who has the {_THING}\?", asked):
        return f"{owner[found[1]]} has the {found[1]}."
    if found := re.fullmatch(rf" What colour is the {_THING}\?", asked):
        return f"The {found[1]} is {colour[found[1]]}."
    if found := re.fullmatch(rf" What does {_PERSON} have\?", asked):
        thing = next(thing for thing, person in owner.items() if person == found[1])
        return f"{found[1]} has a {colour[thing]} {thing}."
    found = re.fullmatch(rf" Where is {_PERSON}\?", asked)
    if found is None:
        raise ValueError(f"a question of no known form: {asked!r}")
    return f"{found[1]} is in the {where[found[1]]}."


def story_holds(text: str, person: str | None = None, thing: str | None = None) -> bool:
    """Whether a story is whole and never contradicts itself or what was asked for."""
    opening = re.match(rf"Once upon a time, {_PERSON} had a {_COLOUR} {_THING}\. ", text)
    if opening is None:
        return False
    one, colour, first = opening.groups()
    if person not in (None, one) or thing not in (None, first):
        return False
    way = rf"One day, {one} (?:took the {first} to the {_PLACE}|went to the {_PLACE} with the {first})\. "
    walk = re.match(way, text[opening.end() :])
    if walk is None:
        return False
    place, rest = walk[1] or walk[2], text[opening.end() + walk.end() :]
    met = re.match(
        rf"(?:There {world.PEOPLE[one]} met {_PERSON}, who|In the {place}, {one} met {_PERSON}\. (\w+)) "
        rf"had a {_COLOUR} {_THING}\. ",
        rest,
    )
    if met is None:
        return False
    two, again, second = met[1] or met[2], met[3], met[5]
    if two == one or second == first or again not in (None, two):
        return False
    rest = rest[met.end() :]
    if animal := re.match(rf"The (\w+) in the {place} said (\w+)\. ", rest):
        if world.SOUNDS.get(animal[1]) != animal[2]:
            return False
        rest = rest[animal.end() :]
    return rest in (
        f"{one} gave the {colour} {first} to {two}. {two} said thank you. "
        f"Now {two} has the {second} and the {first}. The end.",
        f"{one} and {two} swapped. Now {one} has the {second} and {two} has the {first}. The end.",
        f"{one} lost the {first}, but {two} found it. {two} gave it back. "
        f"Now {one} has the {first} again. The end.",
    )
