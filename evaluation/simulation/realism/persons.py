"""Persons behind chats, for splitting data by person."""

from __future__ import annotations

import numpy as np

from evaluation.simulation.realism.chats import ChatTurns


def person_codes(people: ChatTurns, simulated: ChatTurns) -> np.ndarray:
    """Return the person number of each chat, (C,), human chats first.

    Chats with the same name belong to one person. A chat simulated within a stored one belongs to that person, and any
    other chat without a name has its own person.
    """
    twins = {_bot_side(people, number): number for number in range(len(people.chats))}
    chats: list[tuple[str, str | int]] = []
    for number, person in enumerate(people.persons.tolist()):
        chats.append(("name", person) if person else ("chat", number))
    for number, person in enumerate(simulated.persons.tolist()):
        twin = twins.get(_bot_side(simulated, number))
        chats.append(chats[twin] if twin is not None else ("name", person) if person else ("simulated", number))
    codes: dict[tuple[str, str | int], int] = {}
    return np.array([codes.setdefault(chat, len(codes)) for chat in chats], dtype=int)


def _bot_side(side: ChatTurns, number: int) -> tuple[str, ...]:
    """Return the id and the bot's turns of a chat.

    A chat simulated within a stored one has the same.
    """
    conversation = side.chats[number]
    return conversation.id, *(turn.text for turn in conversation.turns if turn.speaker == "bot")


def deal_persons(
    person: np.ndarray, stratum: np.ndarray, n_groups: int, n_deals: int, rng: np.random.Generator
) -> np.ndarray:
    """Assign persons to groups at random, balanced within strata.

    Returns:
        (deals, C) group of each chat.

    Args:
        person: (C,) codes.
        stratum: (C,) numbers, of which that of a person's first chat is used.
    """
    _codes, first, chat_person = np.unique(person, return_index=True, return_inverse=True)
    strata = np.unique(stratum[first], return_inverse=True)[1]
    order = np.argsort(strata + rng.random((n_deals, len(first))), axis=1)
    starts = np.cumsum(np.bincount(strata)) - np.bincount(strata)
    group = np.empty(order.shape, dtype=int)
    # Sorted by stratum, so the position within it determines the group.
    places = np.arange(len(first)) - starts[np.sort(strata)]
    np.put_along_axis(group, order, np.broadcast_to(places % n_groups, order.shape), axis=1)
    return group[:, chat_person]
