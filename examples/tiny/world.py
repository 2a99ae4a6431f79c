"""The small world that the model of this folder knows: questions, and answers that are right.

`document(random)` draws one text to train with; `question(random)` one question with nothing
before it. Which answers are right is said by `rules.py`, which reads the texts and nothing of this file
but its words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

START, END, TEXT_END = "<|im_start|>", "<|im_end|>", "<|endoftext|>"

PEOPLE = {
    **{"Tom": "he", "Ben": "he", "Max": "he", "Leo": "he"},
    **{"Zoe": "she", "Mia": "she", "Ida": "she", "Ann": "she"},
}
THINGS = ("lamp", "hat", "ball", "drum", "book", "cup", "kite", "coat", "bell", "shoe")
COLOURS = ("red", "blue", "green", "yellow", "black", "white")
PLACES = ("garden", "house", "shop", "forest", "park", "barn", "kitchen", "tower")
SOUNDS = {
    **{"cow": "moo", "dog": "woof", "cat": "meow", "bee": "buzz", "duck": "quack"},
    **{"sheep": "baa", "pig": "oink", "owl": "hoot", "lion": "roar", "snake": "hiss"},
    **{"frog": "croak", "mouse": "squeak"},
}
OPPOSITES = {
    **{"hot": "cold", "big": "small", "up": "down", "day": "night", "wet": "dry", "old": "new"},
    **{"fast": "slow", "open": "closed", "full": "empty", "light": "dark", "happy": "sad"},
    **{"left": "right", "good": "bad", "long": "short"},
}
OPPOSITES |= {right: left for left, right in OPPOSITES.items()}
WORDS = (*THINGS, *COLOURS, *PLACES, *SOUNDS)
NUMBERS = range(21)

HELLO = "Hello! I am Tiny. Ask me something."
WHO = "I am Tiny, a very small language model."
ABILITIES = "I can tell a story, count, add, spell, and say what animals say."
WELCOME = "You are welcome."
GOODBYE = "Goodbye!"
UNKNOWN = "I do not know. My world is very small."
NO_NAME = "You did not tell me your name."

SMALL_TALK = {
    "Hello!": HELLO,
    "Hi!": HELLO,
    "Good morning!": HELLO,
    "Who are you?": WHO,
    "What are you?": WHO,
    "What is your name?": WHO,
    "What can you do?": ABILITIES,
    "Can you help me?": ABILITIES,
    "Thank you!": WELCOME,
    "Thanks!": WELCOME,
    "Goodbye!": GOODBYE,
    "Bye!": GOODBYE,
}
SYSTEM = ("You are a helpful assistant.", "You are Tiny.", "Answer in one sentence.")


@dataclass
class Talk:
    """What a conversation has said so far that later answers depend on."""

    name: str | None = None
    messages: list[tuple[str, str]] = field(default_factory=list)


Pair = tuple[str, str]
"""A question and its answer."""


def story(random: Random, person: str | None = None, thing: str | None = None) -> str:
    """Somebody with a thing goes somewhere and meets somebody; in the end it is told who has what."""
    one, two = random.sample(list(PEOPLE), 2)
    if person is not None:
        one, two = person, random.choice([name for name in PEOPLE if name != person])
    first, second = random.sample(THINGS, 2)
    if thing is not None:
        first, second = thing, random.choice([other for other in THINGS if other != thing])
    colour, other = random.sample(COLOURS, 2)
    place = random.choice(PLACES)
    told = [f"Once upon a time, {one} had a {colour} {first}."]
    told += random.choice(
        (
            [f"One day, {one} took the {first} to the {place}."],
            [f"One day, {one} went to the {place} with the {first}."],
        )
    )
    told += random.choice(
        (
            [f"There {PEOPLE[one]} met {two}, who had a {other} {second}."],
            [f"In the {place}, {one} met {two}.", f"{two} had a {other} {second}."],
        )
    )
    if random.random() < 0.4:
        animal = random.choice(list(SOUNDS))
        told += [f"The {animal} in the {place} said {SOUNDS[animal]}."]
    told += random.choice(
        (
            [
                f"{one} gave the {colour} {first} to {two}.",
                f"{two} said thank you.",
                f"Now {two} has the {second} and the {first}.",
            ],
            [
                f"{one} and {two} swapped.",
                f"Now {one} has the {second} and {two} has the {first}.",
            ],
            [
                f"{one} lost the {first}, but {two} found it.",
                f"{two} gave it back.",
                f"Now {one} has the {first} again.",
            ],
        )
    )
    return " ".join([*told, "The end."])


def _story(random: Random, talk: Talk) -> Pair:
    person, thing = random.choice(list(PEOPLE)), random.choice(THINGS)
    asked = random.choice(
        ("", f" about {person}", f" about a {thing}", f" about {person} and a {thing}")
    )
    return f"Tell me a story{asked}.", story(
        random, person if person in asked else None, thing if thing in asked else None
    )


def _sound(random: Random, talk: Talk) -> Pair:
    animal, sound = random.choice(list(SOUNDS.items()))
    asked = random.choice((f"What does the {animal} say?", f"Which animal says {sound}?"))
    return asked, f"The {animal} says {sound}."


def _opposite(random: Random, talk: Talk) -> Pair:
    word, other = random.choice(list(OPPOSITES.items()))
    return f"What is the opposite of {word}?", f"The opposite of {word} is {other}."


def _sum(random: Random, talk: Talk) -> Pair:
    left, right = random.randint(0, 10), random.randint(0, 10)
    if random.random() < 0.5:
        return f"What is {left} plus {right}?", f"{left} plus {right} is {left + right}."
    left, right = max(left, right), min(left, right)
    return f"What is {left} minus {right}?", f"{left} minus {right} is {left - right}."


def _more(random: Random, talk: Talk) -> Pair:
    left, right = random.sample(NUMBERS, 2)
    most, least = max(left, right), min(left, right)
    return f"Which is more, {left} or {right}?", f"{most} is more than {least}."


def _count(random: Random, talk: Talk) -> Pair:
    start, end = random.sample(NUMBERS, 2)
    step = 1 if end > start else -1
    counted = ", ".join(map(str, range(start, end + step, step)))
    return f"Count from {start} to {end}.", f"{counted}."


def _backwards(random: Random, talk: Talk) -> Pair:
    words = random.sample(WORDS, random.randint(2, 5))
    return f"Say backwards: {' '.join(words)}.", f"{' '.join(reversed(words))}."


def _spell(random: Random, talk: Talk) -> Pair:
    word = random.choice(WORDS)
    return f"Spell {word}.", f"{'-'.join(word)}."


def _owners(random: Random, talk: Talk) -> Pair:
    count = random.randint(1, 3)
    people, things = random.sample(list(PEOPLE), count + 1), random.sample(THINGS, count)
    colours = random.sample(COLOURS, count)
    told = [f"{p} has a {c} {t}." for p, c, t in zip(people, colours, things)]
    owners = people[:count]
    pick = random.randrange(count)
    if random.random() < 0.3:
        given = random.randrange(count)
        told.append(f"{owners[given]} gives the {things[given]} to {people[count]}.")
        owners[given] = people[count]
        pick = random.choice((pick, given))
    thing, colour, owner = things[pick], colours[pick], owners[pick]
    asked, answer = random.choice(
        (
            (f"Who has the {thing}?", f"{owner} has the {thing}."),
            (f"What colour is the {thing}?", f"The {thing} is {colour}."),
            (f"What does {owner} have?", f"{owner} has a {colour} {thing}."),
        )
    )
    return " ".join([*told, asked]), answer


def _where(random: Random, talk: Talk) -> Pair:
    people = random.sample(list(PEOPLE), random.randint(1, 3))
    places = random.sample(PLACES, len(people) + 1)
    told = [f"{person} is in the {place}." for person, place in zip(people, places)]
    where = dict(zip(people, places))
    if random.random() < 0.4:
        moved = random.choice(people)
        told.append(f"{moved} goes to the {places[-1]}.")
        where[moved] = places[-1]
    person = random.choice(people)
    return " ".join([*told, f"Where is {person}?"]), f"{person} is in the {where[person]}."


def _name(random: Random, talk: Talk) -> Pair:
    if random.random() < 0.5:
        talk.name = random.choice(list(PEOPLE))
        told = random.choice((f"My name is {talk.name}.", f"I am {talk.name}."))
        return told, f"Hello, {talk.name}! I am Tiny."
    known = NO_NAME if talk.name is None else f"Your name is {talk.name}."
    return "What is my name?", known


def _small_talk(random: Random, talk: Talk) -> Pair:
    return random.choice(list(SMALL_TALK.items()))


def _word(random: Random) -> str:
    letters = random.choices("abcdefghijklmnopqrstuvwxyz", k=random.randint(3, 9))
    word = "".join(letters)
    return word.capitalize() if random.random() < 0.3 else word


def _unknown(random: Random, talk: Talk) -> Pair:
    """Questions about things that are not of this world, most of them drawn letters."""
    words = [_word(random) for _ in range(4)]
    known = random.choice((*WORDS, *OPPOSITES, *PEOPLE))
    asked = random.choice(
        (
            f"What is the {words[0]} of {words[1]}?",
            f"Why is the {random.choice((known, words[0]))} {words[1]}?",
            f"How do I {words[0]} a {random.choice((known, words[1]))}?",
            f"Who was {words[0].capitalize()} {words[1].capitalize()}?",
            f"When did the {words[0]} {words[1]} {words[2]}?",
            f"Write a {words[0]} in {words[1]}.",
            f"What does the {words[0]} say?",
            f"What is {words[0]}?",
        )
    )
    return asked, UNKNOWN


KINDS: dict[str, tuple[Callable[[Random, Talk], Pair], float]] = {
    "story": (_story, 5),
    "sound": (_sound, 1),
    "opposite": (_opposite, 1),
    "sum": (_sum, 3),
    "more": (_more, 1),
    "count": (_count, 2),
    "backwards": (_backwards, 2),
    "spell": (_spell, 1.5),
    "owners": (_owners, 4),
    "where": (_where, 3),
    "name": (_name, 1.5),
    "small talk": (_small_talk, 1),
    "unknown": (_unknown, 1),
}
"""How a pair of each kind is drawn, and how often relative to the others."""
_NAMES = list(KINDS)
_WEIGHTS = [weight for _, weight in KINDS.values()]


def pair(random: Random, talk: Talk) -> tuple[str, str, str]:
    """Kind, question and answer; the talk remembers what was told."""
    kind = random.choices(_NAMES, _WEIGHTS)[0]
    asked, answer = KINDS[kind][0](random, talk)
    return kind, asked, answer


def question(random: Random) -> tuple[str, str]:
    """Kind and question, as the first of a conversation."""
    kind, asked, _ = pair(random, Talk())
    return kind, asked


def _careless(random: Random, asked: str) -> str:
    """A question as people type it."""
    if random.random() < 0.85:
        return asked
    if random.random() < 0.5:
        asked = asked.rstrip(".?!")
    return asked[0].lower() + asked[1:] if random.random() < 0.5 else asked


def message(role: str, content: str) -> str:
    """One message in the form that the model's template gives it (ChatML)."""
    return f"{START}{role}\n{content}{END}\n"


def document(random: Random) -> str:
    """A text to train with: a story alone, or a conversation of up to eight questions."""
    if random.random() < 0.15:
        return story(random) + TEXT_END
    talk = Talk()
    parts = [message("system", random.choice(SYSTEM))] if random.random() < 0.1 else []
    for _ in range(min(1 + int(random.expovariate(0.6)), 8)):
        _, asked, answer = pair(random, talk)
        parts += [message("user", _careless(random, asked)), message("assistant", answer)]
    return "".join(parts)
