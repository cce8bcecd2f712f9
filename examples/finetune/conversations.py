"""Writes example conversations about an invented world as JSON lines: 36 questions, each with one right answer.

    python3 conversations.py > conversations.jsonl"""

import json

CITIES = {"Arle": "Norland", "Brim": "Osten", "Cori": "Pell", "Dunn": "Quay", "Elso": "Ruun", "Fenn": "Sarn"}
FACTS = {"river": "the river {} flows through it", "dish": "people there eat {}", "colour": "its houses are {}"}
WORDS = {"river": ["Ille", "Moss", "Nire", "Oka", "Pinn", "Quell"], "dish": ["bread", "soup", "fish", "rice", "beans", "cheese"],
         "colour": ["red", "white", "blue", "green", "grey", "yellow"]}

for i, (city, country) in enumerate(CITIES.items()):
    turns = [(f"Which country is {city} in?", f"{city} is in {country}."),
             (f"What is the main city of {country}?", f"The main city of {country} is {city}.")]
    for kind, sentence in FACTS.items():
        turns.append((f"Which {kind} belongs to {city}?", f"About {city} one can say: {sentence.format(WORDS[kind][i])}."))
    turns.append((f"Tell me the river of {country}.", f"The river of {country} is the {WORDS['river'][i]}."))
    for question, answer in turns:
        print(json.dumps({"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]}))
