"""The question that Mechanical Turk is given: an ExternalQuestion that shows our page in its frame."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

# Amazon's, of the newest version of this kind of question.
_SCHEMA = "http://mechanicalturk.amazonaws.com/AWSMechanicalTurkDataSchemas/2006-07-14/ExternalQuestion.xsd"


def external_question(participant_link: str) -> str:
    """Return the `Question` of CreateHIT that shows the study in a frame as high as the worker's window."""
    question = Element("ExternalQuestion", xmlns=_SCHEMA)
    SubElement(question, "ExternalURL").text = participant_link
    SubElement(question, "FrameHeight").text = "0"
    return tostring(question, encoding="unicode")
